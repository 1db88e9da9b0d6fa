//! Two handshakes with everything random fixed: their bytes are the documents' example and every other implementation's
//! test.

use std::sync::Arc;

use super::Acceptor;
use super::Expected;
use super::Initiator;
use super::ResumeTicket;
use super::Resumption;
use super::parts::HANDSHAKE_VERSION;
use super::parts::Local;
use super::parts::take_with_proof;
use crate::protocol::limits::DEFAULT_ANNOUNCED;
use crate::protocol::version::VersionRange;
use crate::security::ChannelBinding;
use crate::security::Credentials;
use crate::security::LinkSecret;
use crate::security::Token;
use crate::security::TokenSet;
use crate::security::Transcript;
use crate::wire::Epoch;
use crate::wire::Established;
use crate::wire::Frame;
use crate::wire::LinkId;
use crate::wire::SynAck;

/// A frame of a worked handshake.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_structs, reason = "an example for tests and documents")]
pub struct WorkedFrame {
    /// What it is.
    pub name: &'static str,
    /// Which side sends it.
    pub from: &'static str,
    /// The whole frame, header included.
    pub hex: String,
}

/// A handshake by token in which nothing is left to chance. All byte strings are in hexadecimal.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_structs, reason = "an example for tests and documents")]
pub struct Worked {
    /// The shared token, as text.
    pub token: &'static str,
    /// The token's id.
    pub token_id: String,
    /// What TLS exported.
    pub exporter: String,
    /// The link's secret before, if the link goes on.
    pub former_secret: Option<String>,
    /// The three frames, in order.
    pub frames: Vec<WorkedFrame>,
    /// The transcript's hash that the acceptor's proof covers.
    pub acceptor_hash: String,
    /// The transcript's hash that the initiator's proof covers and the link's secret is derived with.
    pub final_hash: String,
    /// The version chosen.
    pub version: u8,
    /// The link's secret from then on.
    pub link_secret: String,
}

/// What makes one worked handshake differ from the other: each byte stands for a run of it.
struct Fixed {
    exporter: u8,
    initiator_nonce: u8,
    acceptor_nonce: u8,
    link: u8,
    former: Option<LinkSecret>,
}

const TOKEN: &str = "correct-horse-battery-staple";
const CAPABILITY_DIGEST: [u8; 32] = [0xcd; 32];
const LINK: u8 = 0x1c;
/// Data frames that each side has received when the link goes on.
const INITIATOR_RECEIVED: u64 = 300;
const ACCEPTOR_RECEIVED: u64 = 7;

/// The handshake of a new link.
///
/// # Panics
/// If the handshake does not do what it is there for.
pub fn worked_handshake() -> Worked {
    work(&Fixed { exporter: 0xe0, initiator_nonce: 0xa1, acceptor_nonce: 0xb2, link: LINK, former: None })
}

/// The same two nodes again, over a new connection that goes on with the link whose secret is all 0x5e.
///
/// # Panics
/// If the handshake does not do what it is there for.
pub fn worked_resume() -> Worked {
    let former = Some(LinkSecret::new([0x5e; 32]));
    work(&Fixed { exporter: 0xe1, initiator_nonce: 0xa3, acceptor_nonce: 0xb4, link: 0xff, former })
}

fn work(fixed: &Fixed) -> Worked {
    let token = Token::parse(TOKEN.as_bytes()).expect("the example's token is a token");
    let token_id = token.id().to_string();
    let binding = || ChannelBinding::new([fixed.exporter; 32]);
    let [nlu, retrieval] = sides(token);
    let link = LinkId::from_bytes([LINK; 16]);
    let ticket =
        fixed.former.clone().map(|secret| ResumeTicket { link, received: INITIATOR_RECEIVED, secret });
    let resumption = fixed
        .former
        .clone()
        .map_or(Resumption::New, |secret| Resumption::Continue { received: ACCEPTOR_RECEIVED, secret });

    let acceptor = Acceptor::new(retrieval, [fixed.acceptor_nonce; 32], binding(), None);
    let nonce = [fixed.initiator_nonce; 32];
    let (initiator, syn) = Initiator::start(nlu, nonce, binding(), None, ticket, Expected::default());
    let received = acceptor.syn(syn.clone()).expect("the example's SYN is good");
    let (acceptor, syn_ack) = received.accept(LinkId::from_bytes([fixed.link; 16]), resumption);
    let (ours, established) = initiator.syn_ack(syn_ack.clone()).expect("the example's SYN_ACK is good");
    let theirs = acceptor.established(established.clone()).expect("the example's ESTABLISHED is good");
    assert_eq!(ours.secret, theirs.secret, "both sides derive the same");
    assert_eq!((ours.link, theirs.link), (link, link), "a link that goes on keeps its id");

    let [acceptor_hash, final_hash] = hashes(&binding(), &syn, &syn_ack, &established);
    let frame = |name, from, frame: &Frame| WorkedFrame { name, from, hex: frame_hex(frame) };
    Worked {
        token: TOKEN,
        token_id,
        exporter: hex(&[fixed.exporter; 32]),
        former_secret: fixed.former.as_ref().map(|secret| hex(secret.expose())),
        frames: vec![
            frame("SYN", "initiator", &syn),
            frame("SYN_ACK", "acceptor", &syn_ack),
            frame("ESTABLISHED", "initiator", &established),
        ],
        acceptor_hash,
        final_hash,
        version: ours.version,
        link_secret: hex(ours.secret.expose()),
    }
}

fn sides(token: Token) -> [Local; 2] {
    let tokens = Arc::new(TokenSet::new(vec![token]).expect("one token is a set"));
    let nlu = ("agent://default/support/nlu-agent", "nlu-agent-01", 1_700_000_000_000_000);
    let retrieval = ("agent://default/support/retrieval-agent", "retrieval-agent-01", 1_700_000_001_000_000);
    [nlu, retrieval].map(|(agent, node, epoch)| Local {
        agent: agent.parse().expect("the example's agents are agents"),
        node: node.parse().expect("the example's nodes are node ids"),
        epoch: Epoch(epoch),
        announced: DEFAULT_ANNOUNCED,
        credentials: Credentials::Token(Arc::clone(&tokens)),
        capability_digest: CAPABILITY_DIGEST,
        versions: VersionRange::default(),
    })
}

/// Both hashes, from the frames as they went over the wire.
fn hashes(binding: &ChannelBinding, syn: &Frame, syn_ack: &Frame, established: &Frame) -> [String; 2] {
    let mut transcript = Transcript::new(binding);
    transcript.absorb(&syn.payload);
    let (_, body, proof) =
        take_with_proof::<SynAck>(&syn_ack.payload).expect("the example's SYN_ACK is good");
    transcript.absorb(body);
    let acceptor_hash = transcript.hash();
    transcript.absorb(&proof);
    let (_, body, _) =
        take_with_proof::<Established>(&established.payload).expect("the example's ESTABLISHED is good");
    transcript.absorb(body);
    [acceptor_hash, transcript.hash()].map(|hash| hex(hash.bytes()))
}

fn frame_hex(frame: &Frame) -> String {
    hex(&frame.header(HANDSHAKE_VERSION).encode()) + &hex(&frame.payload)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
