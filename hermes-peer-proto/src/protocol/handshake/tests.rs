mod identity;
mod resume;

use std::sync::Arc;

use bytes::Bytes;
use proptest::prelude::*;
use rcgen::CertificateParams;
use rcgen::KeyPair;
use rcgen::SanType;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::PrivateKeyDer;
use rustls_pki_types::PrivatePkcs8KeyDer;

use super::parts::take_with_proof;
use super::parts::with_proof;
use super::*;
use crate::protocol::error::HandshakeError;
use crate::protocol::error::Incompatible;
use crate::protocol::error::Refused;
use crate::protocol::limits::DEFAULT_ANNOUNCED;
use crate::protocol::misbehaviour::PeerMisbehaved;
use crate::protocol::version::VersionRange;
use crate::security::CertificateKey;
use crate::security::ChannelBinding;
use crate::security::Credentials;
use crate::security::Label;
use crate::security::LinkSecret;
use crate::security::Prover;
use crate::security::Token;
use crate::security::TokenSet;
use crate::security::Transcript;
use crate::wire::AgentUri;
use crate::wire::AuthKind;
use crate::wire::Epoch;
use crate::wire::ErrorCode;
use crate::wire::Established;
use crate::wire::Fault;
use crate::wire::Field;
use crate::wire::Frame;
use crate::wire::LinkId;
use crate::wire::MAX_SEGMENT;
use crate::wire::MessageType;
use crate::wire::Payload;
use crate::wire::Resumed;
use crate::wire::SECRET_LEN;
use crate::wire::Side;
use crate::wire::StreamId;
use crate::wire::Syn;
use crate::wire::SynAck;
use crate::wire::TokenId;
use crate::wire::WireError;

const TOKEN: &str = "abc:def=ghi/+jkl-mno";
const OTHER_TOKEN: &str = "zyx:wvu=tsr/+qpo-nml";
const DIALLER: &str = "agent://default/support/nlu";
const ANSWERER: &str = "agent://default/support/retrieval";

fn tokens(texts: &[&str]) -> Credentials {
    let tokens = texts.iter().map(|text| Token::parse(text.as_bytes()).unwrap()).collect();
    Credentials::Token(Arc::new(TokenSet::new(tokens).unwrap()))
}

fn token_id(text: &str) -> TokenId {
    Token::parse(text.as_bytes()).unwrap().id()
}

fn certificate_key(agent: &str) -> Arc<CertificateKey> {
    let pair = KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap();
    let mut params = CertificateParams::default();
    params.subject_alt_names = vec![SanType::URI(agent.try_into().unwrap())];
    let certificate = params.self_signed(&pair).unwrap().der().clone();
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(pair.serialize_der()));
    Arc::new(CertificateKey::new(certificate, &key).unwrap())
}

fn mtls(agent: &str) -> Credentials {
    Credentials::Mtls { key: certificate_key(agent) }
}

fn versions(min: u8, max: u8) -> VersionRange {
    VersionRange::new(min, max).unwrap()
}

fn link(byte: u8) -> LinkId {
    LinkId::from_bytes([byte; 16])
}

fn secret(byte: u8) -> LinkSecret {
    LinkSecret::new([byte; SECRET_LEN])
}

fn local(agent: &str, node: &str, credentials: Credentials) -> Local {
    Local {
        agent: agent.parse().unwrap(),
        node: node.parse().unwrap(),
        epoch: Epoch(5),
        announced: DEFAULT_ANNOUNCED,
        credentials,
        capability_digest: [3; 32],
        versions: VersionRange::default(),
    }
}

fn leaf(local: &Local) -> Option<CertificateDer<'static>> {
    match &local.credentials {
        Credentials::Mtls { key } => Some(key.certificate().clone()),
        Credentials::Token(_) => None,
    }
}

/// Two nodes about to shake hands. Everything can be bent before `run`.
struct Pair {
    initiator: Local,
    acceptor: Local,
    /// What TLS exported to the initiator and to the acceptor.
    bindings: [u8; 2],
    /// The peer's leaf as the initiator and the acceptor see it.
    seen: [Option<CertificateDer<'static>>; 2],
    ticket: Option<ResumeTicket>,
    resumption: Resumption,
    expected: Expected,
}

type Outcome = Result<Authenticated, HandshakeError>;

impl Pair {
    fn new(initiator: Local, acceptor: Local) -> Self {
        Self {
            seen: [leaf(&acceptor), leaf(&initiator)],
            initiator,
            acceptor,
            bindings: [7, 7],
            ticket: None,
            resumption: Resumption::New,
            expected: Expected::default(),
        }
    }

    fn by_token() -> Self {
        Self::new(
            local(DIALLER, "nlu-01", tokens(&[TOKEN])),
            local(ANSWERER, "retrieval-01", tokens(&[TOKEN])),
        )
    }

    fn by_mtls() -> Self {
        Self::new(local(DIALLER, "nlu-01", mtls(DIALLER)), local(ANSWERER, "retrieval-01", mtls(ANSWERER)))
    }

    fn start(&self) -> (Initiator, Frame) {
        Initiator::start(
            self.initiator.clone(),
            [1; 32],
            ChannelBinding::new([self.bindings[0]; 32]),
            self.seen[0].clone(),
            self.ticket.clone(),
            self.expected.clone(),
        )
    }

    fn acceptor(&self) -> Acceptor {
        let binding = ChannelBinding::new([self.bindings[1]; 32]);
        Acceptor::new(self.acceptor.clone(), [2; 32], binding, self.seen[1].clone())
    }

    /// How the handshake ends for the initiator and for the acceptor, when each of its three frames goes through `bend` on
    /// its way. Whoever refuses tells the other.
    fn run(&self, mut bend: impl FnMut(usize, Frame) -> Frame) -> (Outcome, Outcome) {
        let told = |error: &HandshakeError| error.refusal().expect("nobody else has refused yet");
        let (initiator, syn) = self.start();
        let received = match self.acceptor().syn(bend(0, syn)) {
            Ok(received) => received,
            Err(error) => return (initiator.syn_ack(told(&error)).map(|(up, _)| up), Err(error)),
        };
        let (acceptor, syn_ack) = received.accept(link(9), self.resumption.clone());
        match initiator.syn_ack(bend(1, syn_ack)) {
            Ok((up, established)) => (Ok(up), acceptor.established(bend(2, established))),
            Err(error) => {
                let other = acceptor.established(told(&error));
                (Err(error), other)
            }
        }
    }

    fn both(&self) -> (Authenticated, Authenticated) {
        match self.run(|_, frame| frame) {
            (Ok(one), Ok(two)) => (one, two),
            (one, two) => panic!("{one:?} {two:?}"),
        }
    }

    /// The initiator's and the acceptor's errors.
    fn errors(&self) -> (HandshakeError, HandshakeError) {
        errors(self.run(|_, frame| frame))
    }
}

fn errors((one, two): (Outcome, Outcome)) -> (HandshakeError, HandshakeError) {
    (one.unwrap_err(), two.unwrap_err())
}

fn is_refused_by_peer(error: &HandshakeError, code: ErrorCode) -> bool {
    matches!(error, HandshakeError::RefusedByPeer(fault) if fault.code == code)
}

/// The frame with its message changed and its proof left as it is.
fn edited<T: Payload>(frame: Frame, edit: impl FnOnce(&mut T)) -> Frame {
    let (mut message, proof) = T::take(&frame.payload).unwrap();
    edit(&mut message);
    let payload = [&message.encode()[..], proof].concat();
    Frame { payload: payload.into(), ..frame }
}

/// The answer to a SYN from an acceptor that holds the token and says what it likes: its proof is good.
fn proven(pair: &Pair, syn: Frame, edit: impl FnOnce(&mut SynAck)) -> Frame {
    let mut transcript = Transcript::new(&ChannelBinding::new([pair.bindings[1]; 32]));
    transcript.absorb(&syn.payload);
    let (_, frame) = pair.acceptor().syn(syn).unwrap().accept(link(9), Resumption::New);
    let (mut answer, _) = SynAck::take(&frame.payload).unwrap();
    edit(&mut answer);
    let body = answer.encode();
    transcript.absorb(&body);
    let prover = Prover::Token(Token::parse(TOKEN.as_bytes()).unwrap());
    let payload = with_proof(&body, &prover.prove(Label::Acceptor, &transcript.hash()));
    Frame { payload: payload.into(), ..frame }
}

fn syn_with(edit: impl FnOnce(&mut Syn)) -> Result<SynReceived, HandshakeError> {
    let pair = Pair::by_token();
    let (_, syn) = pair.start();
    pair.acceptor().syn(edited(syn, edit))
}

#[test]
fn every_pairing_of_versions_and_auth_kinds_links() {
    let speaks = [versions(1, 1), versions(1, 2), versions(2, 2)];
    for ours in speaks {
        for theirs in speaks {
            let Some(expected) = ours.choose(theirs) else {
                continue;
            };
            for mut pair in [Pair::by_token(), Pair::by_mtls()] {
                pair.initiator.versions = ours;
                pair.acceptor.versions = theirs;
                let (one, two) = pair.both();
                assert_eq!((one.version, two.version), (expected, expected));
                assert_eq!((one.link, two.link), (link(9), link(9)));
                assert_eq!(one.secret, two.secret);
                assert_eq!((one.side, two.side), (Side::Initiator, Side::Acceptor));
                assert_eq!((one.resumed, two.resumed), (Resumed::New, Resumed::New));
                assert_eq!(one.identity.to_string(), format!("retrieval-01 ({ANSWERER})"));
                assert_eq!(two.identity.to_string(), format!("nlu-01 ({DIALLER})"));
                assert_eq!((one.capability_digest, two.capability_digest), (Some([3; 32]), None));
                assert_eq!(one.token_id, two.token_id);
                assert_eq!(one.token_id.is_some(), pair.acceptor.credentials.kind() == AuthKind::Token);
            }
        }
    }
}

#[test]
fn each_range_in_a_syn_gets_its_version_or_its_refusal() {
    // FC-027
    let answer = |min, max| -> Result<u8, HandshakeError> {
        let received = syn_with(|syn| (syn.min_version, syn.max_version) = (min, max))?;
        Ok(received.accept(link(9), Resumption::New).0.version())
    };
    for (min, max, version) in [(1, 1, 1), (1, 2, 2), (2, 9, 2), (1, 255, 2)] {
        assert_eq!(answer(min, max), Ok(version), "{min} to {max}");
    }
    let unsupported = answer(3, 9).unwrap_err();
    assert_eq!(unsupported.code(), ErrorCode::VersionUnsupported);
    assert!(!unsupported.is_worth_retrying());
    assert!(unsupported.to_string().contains("1 to 2") && unsupported.to_string().contains("3 to 9"));
    for (min, max) in [(0, 0), (2, 1)] {
        let refused = answer(min, max).unwrap_err();
        assert_eq!(refused, PeerMisbehaved::BadVersionRange { min, max }.into());
        assert_eq!(refused.code(), ErrorCode::InvalidFrame);
    }
}

#[test]
fn two_nodes_without_a_common_version_both_learn_both_ranges() {
    // FC-027
    let mut pair = Pair::by_token();
    pair.initiator.versions = versions(1, 1);
    pair.acceptor.versions = versions(2, 2);
    let (one, two) = pair.errors();
    for error in [one, two] {
        assert_eq!(error.code(), ErrorCode::VersionUnsupported);
        let text = error.to_string();
        assert!(text.contains("1 to 1") && text.contains("2 to 2"), "{text}");
        assert!(!error.is_worth_retrying());
    }
}

#[test]
fn a_pick_outside_of_the_range_or_an_altered_range_makes_no_link() {
    // FC-027
    let pair = Pair::by_token();
    for picked in [0, 3, 255] {
        let bend = |step, frame| {
            if step == 1 { edited(frame, |answer: &mut SynAck| answer.version = picked) } else { frame }
        };
        let (one, two) = errors(pair.run(bend));
        assert_eq!(one, PeerMisbehaved::WrongPick { picked, offered: versions(1, 2) }.into());
        assert!(is_refused_by_peer(&two, ErrorCode::InvalidFrame));
    }
    let lower = |step, frame| {
        if step == 1 { edited(frame, |answer: &mut SynAck| answer.version = 1) } else { frame }
    };
    assert_eq!(errors(pair.run(lower)).0, Refused::Proof { kind: AuthKind::Token }.into());
    let downgrade = |step, frame| {
        if step == 0 { edited(frame, |syn: &mut Syn| syn.max_version = 1) } else { frame }
    };
    assert_eq!(errors(pair.run(downgrade)).0, Refused::Proof { kind: AuthKind::Token }.into());
}

#[test]
fn unknown_fields_are_passed_over_unless_they_are_mandatory() {
    // FC-027
    let field = |mandatory| Field { tag: 77, mandatory, value: vec![1, 2, 3] };
    assert!(syn_with(|syn| syn.fields.push(field(false))).is_ok());
    let refused = syn_with(|syn| syn.fields = vec![field(false), field(true)]).unwrap_err();
    assert_eq!(refused, Incompatible::MandatoryField { message: "SYN", tag: 77 }.into());
    let pair = Pair::by_token();
    let (initiator, syn) = pair.start();
    assert!(initiator.syn_ack(proven(&pair, syn, |answer| answer.fields.push(field(false)))).is_ok());
    let bend = |at: usize| {
        move |step, frame| match step {
            1 if at == 1 => edited(frame, |answer: &mut SynAck| answer.fields.push(field(true))),
            2 if at == 2 => edited(frame, |last: &mut Established| last.fields.push(field(true))),
            _ => frame,
        }
    };
    let of_syn_ack = errors(pair.run(bend(1))).0;
    assert_eq!(of_syn_ack, Incompatible::MandatoryField { message: "SYN_ACK", tag: 77 }.into());
    let of_established = pair.run(bend(2)).1.unwrap_err();
    assert_eq!(of_established, Incompatible::MandatoryField { message: "ESTABLISHED", tag: 77 }.into());
}

#[test]
fn bytes_after_a_message_are_refused() {
    for at in 0..3 {
        let bend = |step, frame: Frame| {
            let extra: &[u8] = if step == at { &[0] } else { &[] };
            Frame { payload: [&frame.payload[..], extra].concat().into(), ..frame }
        };
        let (one, two) = Pair::by_token().run(bend);
        let refused = if at == 1 { one.unwrap_err() } else { two.unwrap_err() };
        assert!(
            matches!(
                refused,
                HandshakeError::Misbehaved(PeerMisbehaved::Wire(WireError::TrailingBytes { count: 1, .. }))
            ),
            "{refused:?}"
        );
    }
}

#[test]
fn limits_with_which_nothing_could_be_sent_are_refused() {
    let refused = syn_with(|syn| syn.announced.max_chunk = 255).unwrap_err();
    assert_eq!(refused, PeerMisbehaved::BadLimit { name: "max_chunk", got: 255, least: 256 }.into());
    let refused = syn_with(|syn| syn.announced.stream_window = 0).unwrap_err();
    assert_eq!(refused, PeerMisbehaved::BadLimit { name: "stream_window", got: 0, least: 1024 }.into());
    let refused = syn_with(|syn| syn.announced.heartbeat_ms = 0).unwrap_err();
    assert_eq!(refused.code(), ErrorCode::InvalidFrame);
    assert!(syn_with(|syn| syn.announced.max_streams = 0).is_ok(), "a node that only calls");
}

fn resuming(ticket_secret: u8, held: u8) -> Pair {
    let mut pair = Pair::by_token();
    pair.ticket = Some(ResumeTicket { link: link(4), received: 11, secret: secret(ticket_secret) });
    pair.resumption = Resumption::Continue { received: 22, secret: secret(held) };
    pair
}

#[test]
fn another_frame_than_the_one_due_is_named() {
    // FC-034
    let frames = || {
        let pair = Pair::by_token();
        let (initiator, syn) = pair.start();
        let (_, syn_ack) = pair.acceptor().syn(syn.clone()).unwrap().accept(link(9), Resumption::New);
        let (_, established) = initiator.syn_ack(syn_ack.clone()).unwrap();
        [syn, syn_ack, established]
    };
    let refused = |at: usize, frame: Frame| {
        let bend = |step, good| if step == at { frame.clone() } else { good };
        let (one, two) = Pair::by_token().run(bend);
        if at == 1 { one.unwrap_err() } else { two.unwrap_err() }
    };
    let request = Frame::data(MessageType::Request, StreamId(1), true, Bytes::new());
    let due = [MessageType::Syn, MessageType::SynAck, MessageType::Established];
    for (at, expected) in due.into_iter().enumerate() {
        let mut wrong: Vec<_> = frames().into_iter().filter(|frame| frame.message_type != expected).collect();
        wrong.push(Frame { stream: StreamId(1), ..frames()[at].clone() });
        wrong.push(request.clone());
        for frame in wrong {
            let unexpected =
                PeerMisbehaved::UnexpectedFrame { expected, got: frame.message_type, stream: frame.stream };
            assert_eq!(refused(at, frame), unexpected.into());
        }
    }
    let text = refused(1, request).to_string();
    assert_eq!(text, "REQUEST on stream 1 in the handshake, SYN_ACK on stream 0 expected");
}

#[test]
fn a_peers_refusal_is_passed_on_with_its_code_and_on_one_line() {
    let refused = |code| {
        let fault = Fault::new(code, format!("go away\n{}", "x".repeat(1000)));
        let frame = Frame::control(MessageType::Error, StreamId::LINK, fault.encode());
        Pair::by_token().start().0.syn_ack(frame).unwrap_err()
    };
    let overloaded = refused(ErrorCode::Overloaded);
    assert_eq!(overloaded.code(), ErrorCode::Overloaded);
    assert!(overloaded.is_worth_retrying());
    assert!(overloaded.refusal().is_none(), "nobody refuses a refusal");
    assert!(!refused(ErrorCode::Unauthenticated).is_worth_retrying());
    let text = overloaded.to_string();
    assert!(text.contains("go away\\nx") && !text.contains('\n') && text.len() < 300, "{text}");
}

#[test]
fn the_longest_syn_is_far_below_the_limit_of_strangers() {
    let longest = "x".repeat(MAX_SEGMENT);
    let all: Vec<_> = (0..16).map(|n| format!("{TOKEN}{n}")).collect();
    let all: Vec<_> = all.iter().map(String::as_str).collect();
    let agent = format!("agent://{longest}/{longest}/{longest}");
    let mut pair = resuming(1, 1);
    pair.initiator = local(&agent, &longest, tokens(&all));
    assert!(pair.start().1.payload.len() < 1024);
}

#[test]
fn no_text_of_a_handshake_shows_a_token_or_a_secret() {
    // FC-026, FC-079
    let mut texts = String::new();
    let mut note = |thing: &dyn std::fmt::Debug| texts += &format!("{thing:?} {thing:#?}\n");
    for mut pair in [resuming(1, 1), resuming(1, 2)] {
        note(&pair.initiator);
        note(&pair.resumption);
        let (initiator, syn) = pair.start();
        note(&(&initiator, &syn, &pair.ticket));
        let acceptor = pair.acceptor();
        note(&acceptor);
        let received = acceptor.syn(syn).unwrap();
        note(&received);
        let (acceptor, syn_ack) = received.accept(link(9), pair.resumption.clone());
        note(&(&acceptor, &syn_ack));
        let (up, established) = initiator.syn_ack(syn_ack).unwrap();
        note(&(&up, &established, acceptor.established(established.clone())));
        pair.bindings = [1, 2];
        note(&pair.errors());
        pair.acceptor.credentials = tokens(&[OTHER_TOKEN]);
        let (one, two) = pair.errors();
        note(&(&one, &two, one.to_string(), two.to_string(), two.refusal()));
    }
    for token in [TOKEN, OTHER_TOKEN] {
        let numbers: Vec<_> = token.bytes().map(|byte| byte.to_string()).collect();
        for (piece, numbers) in token.as_bytes().windows(4).zip(numbers.windows(4)) {
            assert!(!texts.contains(std::str::from_utf8(piece).unwrap()));
            assert!(!texts.contains(&numbers.join(", ")));
        }
    }
    // The link's secrets and the exporter are runs of one byte.
    assert!(!texts.contains("7, 7, 7, 7"), "the exporter");
    let secrets = texts.matches("secret: Secret").count();
    assert!(secrets > 10, "{secrets}");
}

/// The expected bytes were computed outside of this crate, from the frames and the rules in the documents.
#[test]
fn the_worked_handshakes_have_the_documented_proofs_and_secrets() {
    for (worked, proof, secret) in [
        (
            worked_handshake(),
            "4de5608756b351fb696b38f6673c69f57e3cdd00d80fcada4ab2a08cfb117e72",
            "d27774e5f89cdd4cec268f67e6021c912444b1233376faac041c94f96c3331e0",
        ),
        (
            worked_resume(),
            "74338f1bf7a521dbf6f27b1efa66458caed6141aa7f5a6378d91224afc7817f4",
            "0eefa9b46358f3b4faa89b651a394807f5f54bc4462d5f6440bc062de4ee71b8",
        ),
    ] {
        let established = worked.frames.last().unwrap();
        assert!(established.hex.ends_with(proof), "{worked:#?}");
        assert_eq!(worked.link_secret, secret);
        assert_eq!(worked.version, 2);
    }
}

/// Every bit of every handshake message is covered by a proof.
fn no_link_with_a_flipped_bit(pair: &Pair, step: usize, position: prop::sample::Index) {
    let bend = |at, frame: Frame| {
        if at != step {
            return frame;
        }
        let mut payload = frame.payload.to_vec();
        let bit = position.index(payload.len() * 8);
        payload[bit / 8] ^= 1 << (bit % 8);
        Frame { payload: payload.into(), ..frame }
    };
    let (one, two) = pair.run(bend);
    assert!(one.is_err() || two.is_err(), "step {step}, {position:?}");
    assert!(step == 2 || (one.is_err() && two.is_err()), "before ESTABLISHED neither side is up");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn a_flipped_bit_anywhere_makes_no_link_by_token(step in 0usize..3, position: prop::sample::Index) {
        no_link_with_a_flipped_bit(&resuming(1, 1), step, position);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn a_flipped_bit_anywhere_makes_no_link_by_mtls(step in 0usize..3, position: prop::sample::Index) {
        no_link_with_a_flipped_bit(&Pair::by_mtls(), step, position);
    }

    #[test]
    fn no_bytes_make_a_handshake_panic(payload in prop::collection::vec(any::<u8>(), 0..300), step in 0usize..3) {
        let bend = |at, frame: Frame| if at == step { Frame { payload: payload.clone().into(), ..frame } } else { frame };
        let (one, two) = Pair::by_token().run(bend);
        prop_assert!(one.is_err() || two.is_err());
    }
}
