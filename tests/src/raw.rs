//! A peer that says whatever a test makes it say: real TCP, real TLS, frames by hand.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use std::time::SystemTime;

use bytes::Buf;
use bytes::Bytes;
use bytes::BytesMut;
use rustls::DigitallySignedStruct;
use rustls::DistinguishedName;
use rustls::SignatureScheme;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::client::danger::ServerCertVerified;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::ServerName;
use rustls::pki_types::UnixTime;
use rustls::pki_types::pem::PemObject;
use rustls::server::danger::ClientCertVerified;
use rustls::server::danger::ClientCertVerifier;
use rustls::version::TLS13;
use tokio::io::AsyncReadExt;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::TlsConnector;
use tokio_rustls::TlsStream;

use hermes_peer_proto::protocol::HandshakeError;
use hermes_peer_proto::protocol::VersionRange;
use hermes_peer_proto::protocol::handshake::Acceptor;
use hermes_peer_proto::protocol::handshake::Authenticated;
use hermes_peer_proto::protocol::handshake::Expected;
use hermes_peer_proto::protocol::handshake::HANDSHAKE_VERSION;
use hermes_peer_proto::protocol::handshake::Initiator;
use hermes_peer_proto::protocol::handshake::Local;
use hermes_peer_proto::protocol::handshake::ResumeTicket;
use hermes_peer_proto::protocol::handshake::Resumption;
use hermes_peer_proto::protocol::limits::DEFAULT_ANNOUNCED;
use hermes_peer_proto::protocol::limits::MAX_PAYLOAD;
use hermes_peer_proto::security::CertificateKey;
use hermes_peer_proto::security::ChannelBinding;
use hermes_peer_proto::security::Credentials;
use hermes_peer_proto::security::EXPORTER_LABEL;
use hermes_peer_proto::security::Token;
use hermes_peer_proto::security::TokenSet;
use hermes_peer_proto::wire::Batch;
use hermes_peer_proto::wire::Decoder;
use hermes_peer_proto::wire::Envelope;
use hermes_peer_proto::wire::Epoch;
use hermes_peer_proto::wire::Fault;
use hermes_peer_proto::wire::Frame;
use hermes_peer_proto::wire::LinkId;
use hermes_peer_proto::wire::MessageId;
use hermes_peer_proto::wire::MessageType;
use hermes_peer_proto::wire::Payload;
use hermes_peer_proto::wire::StreamId;
use hermes_peer_proto::wire::encode_head;

/// No answer within this time is none at all.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// Who a raw peer says it is, and with what it shows it.
#[derive(Debug)]
pub struct RawIdentity {
    /// What stands in SYN or SYN_ACK.
    pub local: Local,
    /// What is shown in TLS: chain and key as PEM. None in token mode.
    pub certificate: Option<(String, String)>,
    /// The application protocol named in TLS.
    pub alpn: Option<&'static [u8]>,
}

impl RawIdentity {
    /// By a certificate: PEM of it and of its key.
    ///
    /// # Panics
    /// If names or PEM are not what they should be.
    pub fn mtls(agent: &str, node: &str, cert: &str, key: &str) -> Self {
        let parsed = PrivateKeyDer::from_pem_slice(key.as_bytes()).expect("the key is PEM");
        let leaf = CertificateDer::from_pem_slice(cert.as_bytes()).expect("the certificate is PEM");
        let prover = CertificateKey::new(leaf, &parsed).expect("the key is the certificate's");
        let credentials = Credentials::Mtls { key: Arc::new(prover) };
        Self {
            local: local(agent, node, credentials),
            certificate: Some((cert.to_owned(), key.to_owned())),
            alpn: Some(b"hermes"),
        }
    }

    /// By a token.
    ///
    /// # Panics
    /// If the names or the token are not what they should be.
    pub fn token(agent: &str, node: &str, token: &str) -> Self {
        let token = Token::parse(token.as_bytes()).expect("the token is long enough");
        let tokens = TokenSet::new(vec![token]).expect("one token is a set");
        Self {
            local: local(agent, node, Credentials::Token(Arc::new(tokens))),
            certificate: None,
            alpn: Some(b"hermes"),
        }
    }

    /// Speaks these versions.
    ///
    /// # Panics
    /// If they are no range.
    #[must_use]
    pub fn versions(mut self, min: u8, max: u8) -> Self {
        self.local.versions = VersionRange::new(min, max).expect("a range of versions");
        self
    }

    /// Was started at another time.
    #[must_use]
    pub fn epoch(mut self, epoch: u64) -> Self {
        self.local.epoch = Epoch(epoch);
        self
    }
}

fn local(agent: &str, node: &str, credentials: Credentials) -> Local {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Local {
        agent: agent.parse().expect("the test names an agent"),
        node: node.parse().expect("the test names a node"),
        epoch: Epoch(u64::try_from(now.as_micros()).unwrap_or(u64::MAX)),
        announced: DEFAULT_ANNOUNCED,
        credentials,
        capability_digest: [0; 32],
        versions: VersionRange::default(),
    }
}

/// A TLS connection of a raw peer.
#[derive(Debug)]
pub struct Raw {
    stream: TlsStream<TcpStream>,
    input: BytesMut,
    /// The version in the headers that it writes and expects.
    pub version: u8,
}

/// How a raw peer waits as a listener.
#[derive(Debug)]
pub struct RawListener {
    listener: TcpListener,
}

impl RawListener {
    /// On a free port.
    ///
    /// # Panics
    /// If there is none.
    pub async fn new() -> Self {
        Self { listener: TcpListener::bind("127.0.0.1:0").await.expect("a free port") }
    }

    /// Where it listens.
    ///
    /// # Panics
    /// Never: it listens.
    pub fn address(&self) -> SocketAddr {
        self.listener.local_addr().expect("a listener has an address")
    }

    /// The next connection, under TLS.
    ///
    /// # Errors
    /// If TLS does not come up.
    pub async fn accept(&self, identity: &RawIdentity) -> io::Result<Raw> {
        let (tcp, _) = self.listener.accept().await?;
        let acceptor = TlsAcceptor::from(Arc::new(server_config(identity)?));
        let stream = acceptor.accept(tcp).await?;
        Ok(Raw::over(stream.into()))
    }

    /// The next connection, without TLS.
    ///
    /// # Errors
    /// If none comes.
    pub async fn accept_plain(&self) -> io::Result<TcpStream> {
        Ok(self.listener.accept().await?.0)
    }
}

impl Raw {
    fn over(stream: TlsStream<TcpStream>) -> Self {
        Self { stream, input: BytesMut::new(), version: HANDSHAKE_VERSION }
    }

    /// TLS, and nothing above it yet.
    ///
    /// # Errors
    /// If TLS does not come up.
    pub async fn connect(identity: &RawIdentity, address: &str) -> io::Result<Self> {
        let tcp = TcpStream::connect(address).await?;
        tcp.set_nodelay(true)?;
        let connector = TlsConnector::from(Arc::new(client_config(identity)?));
        let name = ServerName::from(std::net::Ipv4Addr::UNSPECIFIED);
        Ok(Self::over(connector.connect(name, tcp).await?.into()))
    }

    /// TLS and a whole handshake: the link is up.
    ///
    /// # Panics
    /// If it does not come up.
    pub async fn dial(identity: &RawIdentity, address: &str) -> Self {
        let mut raw = Self::connect(identity, address).await.expect("TLS comes up");
        raw.initiate(identity, None).await.expect("the handshake succeeds");
        raw
    }

    /// What binds the handshake to this connection.
    ///
    /// # Panics
    /// Never: TLS is up.
    pub fn binding(&self) -> ChannelBinding {
        let exported = match &self.stream {
            TlsStream::Client(client) => {
                client.get_ref().1.export_keying_material([0; 32], EXPORTER_LABEL, None)
            }
            TlsStream::Server(server) => {
                server.get_ref().1.export_keying_material([0; 32], EXPORTER_LABEL, None)
            }
        };
        ChannelBinding::new(exported.expect("TLS is up"))
    }

    /// The certificate that the other side showed.
    pub fn peer_certificate(&self) -> Option<CertificateDer<'static>> {
        let (_, tls) = self.stream.get_ref();
        tls.peer_certificates().and_then(|chain| chain.first()).map(|leaf| leaf.clone().into_owned())
    }

    /// The initiator's machine, and its SYN, not sent yet.
    pub fn initiator(&self, identity: &RawIdentity, ticket: Option<ResumeTicket>) -> (Initiator, Frame) {
        let certificate = self.peer_certificate();
        Initiator::start(
            identity.local.clone(),
            nonce(),
            self.binding(),
            certificate,
            ticket,
            Expected::default(),
        )
    }

    /// The initiator's handshake.
    ///
    /// # Errors
    /// What the machine says, or the other side.
    ///
    /// # Panics
    /// If the other side closes without a word.
    pub async fn initiate(
        &mut self,
        identity: &RawIdentity,
        ticket: Option<ResumeTicket>,
    ) -> Result<Authenticated, HandshakeError> {
        let (machine, syn) = self.initiator(identity, ticket);
        self.send(&syn).await;
        let answer = self.receive().await.expect("SYN is answered");
        let (authenticated, established) = machine.syn_ack(answer)?;
        self.send(&established).await;
        self.version = authenticated.version;
        Ok(authenticated)
    }

    /// The acceptor's handshake, for a new link.
    ///
    /// # Errors
    /// What the machine says, or the other side.
    ///
    /// # Panics
    /// If the other side closes without a word.
    pub async fn respond(&mut self, identity: &RawIdentity) -> Result<Authenticated, HandshakeError> {
        let acceptor =
            Acceptor::new(identity.local.clone(), nonce(), self.binding(), self.peer_certificate());
        let syn = self.receive().await.expect("the dialler begins with SYN");
        let (expect, syn_ack) = acceptor.syn(syn)?.accept(LinkId::from_bytes([7; 16]), Resumption::New);
        self.send(&syn_ack).await;
        let established = self.receive().await.expect("SYN_ACK is answered");
        let version = expect.version();
        let authenticated = expect.established(established)?;
        self.version = version;
        Ok(authenticated)
    }

    /// Sends one frame. That the other side has closed meanwhile is no failure of the sender's.
    pub async fn send(&mut self, frame: &Frame) {
        let bytes = self.encode(frame);
        self.send_bytes(&bytes).await;
    }

    /// Sends many frames in one write.
    pub async fn send_all(&mut self, frames: &[Frame]) {
        let bytes: Vec<u8> = frames.iter().flat_map(|frame| self.encode(frame)).collect();
        self.send_bytes(&bytes).await;
    }

    /// Sends bytes. False if the other side has closed.
    pub async fn send_bytes(&mut self, bytes: &[u8]) -> bool {
        self.stream.write_all(bytes).await.is_ok() && self.stream.flush().await.is_ok()
    }

    /// A frame's bytes.
    pub fn encode(&self, frame: &Frame) -> Vec<u8> {
        let mut batch = Batch::default();
        batch.push(self.version, frame);
        batch.copy_to_bytes(batch.len()).into()
    }

    /// The next frame, `None` when the other side has closed.
    ///
    /// # Panics
    /// If nothing comes for [`PATIENCE`], or what comes is no frame.
    pub async fn receive(&mut self) -> Option<Frame> {
        let reading = async {
            loop {
                let version = self.input.get(4).copied().unwrap_or(self.version);
                let decoder = Decoder::new(version, MAX_PAYLOAD);
                if let Some(frame) = decoder.decode(&mut self.input).expect("a node sends frames") {
                    return Some(frame);
                }
                match self.stream.read_buf(&mut self.input).await {
                    Ok(0) | Err(_) => return None,
                    Ok(_) => {}
                }
            }
        };
        tokio::time::timeout(PATIENCE, reading).await.expect("the other side answers or closes")
    }

    /// The next frame of this type on this stream; others are passed over. `None` when the other side has closed.
    pub async fn receive_on(&mut self, message_type: MessageType, stream: u32) -> Option<Frame> {
        loop {
            let frame = self.receive().await?;
            if frame.message_type == message_type && frame.stream == StreamId(stream) {
                return Some(frame);
            }
        }
    }

    /// The fault with which the other side ends the connection; `None` if it closes without a word.
    ///
    /// # Panics
    /// If it says something after the fault, or the fault does not parse.
    pub async fn last_word(&mut self) -> Option<Fault> {
        let frame = loop {
            let frame = self.receive().await?;
            if frame.message_type == MessageType::Error && frame.stream == StreamId::LINK {
                break frame;
            }
        };
        assert!(self.receive().await.is_none(), "ERROR on stream 0 is the last frame");
        Some(Fault::decode(&frame.payload).expect("a fault parses"))
    }

    /// Closes the connection at once.
    pub async fn close(mut self) {
        // The other side may have closed before.
        let _closed = self.stream.shutdown().await;
    }
}

/// A REQUEST that is whole in one frame.
///
/// # Panics
/// If the capability is no name.
pub fn request(stream: u32, capability: &str, body: &str, fin: bool) -> Frame {
    request_with(stream, capability, body, fin, |_| {})
}

/// A REQUEST whose envelope a test changes.
///
/// # Panics
/// If the capability is no name.
pub fn request_with(
    stream: u32,
    capability: &str,
    body: &str,
    fin: bool,
    change: impl FnOnce(&mut Envelope),
) -> Frame {
    let mut envelope = Envelope::default();
    envelope.capability = Some(capability.parse().expect("the test names a capability"));
    envelope.message_id = Some(MessageId::from_bytes(u128::from(stream).to_be_bytes()));
    envelope.time_left = Some(Duration::from_secs(20));
    change(&mut envelope);
    Frame::data(MessageType::Request, StreamId(stream), fin, message(&envelope, body.as_bytes()))
}

/// A message's bytes.
///
/// # Panics
/// If the envelope is too long.
pub fn message(envelope: &Envelope, body: &[u8]) -> Bytes {
    let mut head = encode_head(envelope, body.len()).expect("the envelope is short");
    head.extend_from_slice(body);
    head.freeze()
}

/// A control frame.
pub fn control(message_type: MessageType, stream: u32, payload: &impl Payload) -> Frame {
    Frame::control(message_type, StreamId(stream), payload.encode())
}

/// 32 bytes that come once.
fn nonce() -> [u8; 32] {
    let mut nonce = [0; 32];
    aws_lc_rs::default_provider().secure_random.fill(&mut nonce).expect("the system has a random source");
    nonce
}

fn chain_and_key(
    certificate: &(String, String),
) -> io::Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)> {
    let chain = CertificateDer::pem_slice_iter(certificate.0.as_bytes()).collect::<Result<Vec<_>, _>>();
    let key = PrivateKeyDer::from_pem_slice(certificate.1.as_bytes());
    Ok((chain.map_err(io::Error::other)?, key.map_err(io::Error::other)?))
}

fn client_config(identity: &RawIdentity) -> io::Result<rustls::ClientConfig> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&TLS13])
        .map_err(io::Error::other)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anybody(provider)));
    let mut config = match &identity.certificate {
        Some(certificate) => {
            let (chain, key) = chain_and_key(certificate)?;
            builder.with_client_auth_cert(chain, key).map_err(io::Error::other)?
        }
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = identity.alpn.map(<[u8]>::to_vec).into_iter().collect();
    Ok(config)
}

fn server_config(identity: &RawIdentity) -> io::Result<rustls::ServerConfig> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = rustls::ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&TLS13])
        .map_err(io::Error::other)?;
    let (chain, key, builder) = match &identity.certificate {
        Some(certificate) => {
            let (chain, key) = chain_and_key(certificate)?;
            (chain, key, builder.with_client_cert_verifier(Arc::new(Anybody(provider))))
        }
        None => {
            let key = rcgen::KeyPair::generate().map_err(io::Error::other)?;
            let made = rcgen::CertificateParams::default().self_signed(&key).map_err(io::Error::other)?;
            let key = PrivateKeyDer::try_from(key.serialize_der()).map_err(io::Error::other)?;
            (vec![made.der().clone()], key, builder.with_no_client_auth())
        }
    };
    let mut config = builder.with_single_cert(chain, key).map_err(io::Error::other)?;
    config.alpn_protocols = identity.alpn.map(<[u8]>::to_vec).into_iter().collect();
    Ok(config)
}

/// A raw peer trusts whoever answers: it is the other side that is tested.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _end: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

impl ClientCertVerifier for Anybody {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _end: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
