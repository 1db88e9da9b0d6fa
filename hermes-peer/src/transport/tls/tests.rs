use std::time::Duration;
use std::time::SystemTime;

use rcgen::CertificateParams;
use rcgen::DnType;
use rcgen::ExtendedKeyUsagePurpose;
use rcgen::Issuer;
use rcgen::KeyPair;
use rcgen::SanType;
use rustls_pki_types::CertificateRevocationListDer;
use rustls_pki_types::PrivateKeyDer;
use rustls_pki_types::PrivatePkcs8KeyDer;
use tokio::io::AsyncReadExt as _;
use tokio::io::AsyncWriteExt as _;

use super::*;
use crate::transport::memory;
use crate::transport::reload::TlsContext;
use crate::transport::tcp::Listener;
use crate::transport::tcp::TransportSettings;
use crate::transport::tcp::dial;
use crate::transport::tls::identity::TlsIdentity;

const AGENT: &str = "agent://default/support/nlu";
const HOUR: Duration = Duration::from_secs(3600);

/// An authority whose certificates can have any fault.
struct Ca {
    certificate: CertificateDer<'static>,
    issuer: Issuer<'static, KeyPair>,
}

impl Ca {
    fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        params.key_usages = vec![rcgen::KeyUsagePurpose::KeyCertSign, rcgen::KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap().der().clone();
        Self { certificate, issuer: Issuer::new(params, key) }
    }

    fn identity(&self, change: impl FnOnce(&mut CertificateParams)) -> TlsIdentity {
        let mut params = CertificateParams::default();
        params.not_before = (SystemTime::now() - HOUR).into();
        params.not_after = (SystemTime::now() + HOUR).into();
        params.serial_number = Some(7_u64.into());
        params.subject_alt_names = vec![uri(AGENT)];
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        TlsIdentity {
            chain: vec![certificate.der().clone()],
            key: PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der())),
            roots: vec![self.certificate.clone()],
            revocation_lists: Vec::new(),
        }
    }

    fn good(&self) -> TlsContext {
        TlsContext::from_identity(self.identity(|_| {})).unwrap()
    }

    /// A context for a certificate that this node itself would refuse to start with.
    fn context(&self, change: impl FnOnce(&mut CertificateParams)) -> TlsContext {
        TlsContext::from_identity(self.identity(change)).unwrap()
    }

    fn list(&self, serial: u64) -> CertificateRevocationListDer<'static> {
        let params = rcgen::CertificateRevocationListParams {
            this_update: (SystemTime::now() - HOUR).into(),
            next_update: (SystemTime::now() + HOUR).into(),
            crl_number: 1_u64.into(),
            issuing_distribution_point: None,
            revoked_certs: vec![rcgen::RevokedCertParams {
                serial_number: serial.into(),
                revocation_time: SystemTime::now().into(),
                reason_code: None,
                invalidity_date: None,
            }],
            key_identifier_method: rcgen::KeyIdMethod::Sha256,
        };
        params.signed_by(&self.issuer).unwrap().into()
    }
}

fn uri(name: &str) -> SanType {
    SanType::URI(name.try_into().unwrap())
}

type Outcome = Result<TlsConnection, TlsError>;

async fn meet(client: &TlsContext, server: &TlsContext) -> (Outcome, Outcome) {
    let (near, far) = memory::pair();
    tokio::join!(client.connect(near), server.accept(far))
}

/// What the side that dialled learns: with TLS 1.3, of a refusal only when it reads.
async fn learned(outcome: Outcome) -> TlsError {
    match outcome {
        Err(error) => error,
        Ok(mut connection) => {
            let error = connection.read_u8().await.unwrap_err();
            error.get_ref().and_then(|inner| inner.downcast_ref::<TlsError>()).cloned().expect("a TLS error")
        }
    }
}

#[tokio::test(start_paused = true)]
async fn two_nodes_of_one_authority_talk_and_share_a_binding() {
    // FC-022: neither address nor host name plays a part.
    let ca = Ca::new("one");
    let (client, server) = meet(&ca.good(), &ca.good()).await;
    let (mut client, mut server) = (client.unwrap(), server.unwrap());
    assert_eq!(client.channel_binding(), server.channel_binding());
    assert!(client.is_write_vectored());
    for connection in [&client, &server] {
        let agent = crate::transport::facts::agent_of(connection.peer_certificate().unwrap()).unwrap();
        assert_eq!(agent.as_str(), AGENT);
    }
    let big = vec![7_u8; 300_000];
    let mut got = vec![0_u8; big.len()];
    let (sent, read) = tokio::join!(
        async {
            client.write_all(&big).await?;
            client.flush().await
        },
        server.read_exact(&mut got)
    );
    sent.unwrap();
    read.unwrap();
    assert!(got == big);
    client.shutdown().await.unwrap();
    assert_eq!(server.read(&mut got).await.unwrap(), 0, "an orderly end is an end");
}

#[tokio::test]
async fn two_connections_have_two_bindings() {
    let ca = Ca::new("one");
    let (one, _) = meet(&ca.good(), &ca.good()).await;
    let (two, _) = meet(&ca.good(), &ca.good()).await;
    assert_ne!(one.unwrap().channel_binding(), two.unwrap().channel_binding());
}

#[tokio::test]
async fn a_cut_stream_is_an_error_and_no_end() {
    let ca = Ca::new("one");
    let (client, server) = meet(&ca.good(), &ca.good()).await;
    let mut server = server.unwrap();
    drop(client);
    assert_eq!(server.read_u8().await.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
}

#[tokio::test]
async fn the_post_quantum_exchange_is_chosen_and_no_session_is_kept_for_resuming() {
    let ca = Ca::new("one");
    let context = ca.good();
    for _ in 0..2 {
        let (client, _server) = meet(&context, &context).await;
        let client = client.unwrap();
        let (_, tls) = client.inner.get_ref();
        let group = tls.negotiated_key_exchange_group().map(|group| group.name());
        assert_eq!(group, Some(rustls::NamedGroup::X25519MLKEM768));
        assert_eq!(tls.handshake_kind(), Some(rustls::HandshakeKind::Full));
    }
}

#[tokio::test]
async fn a_certificate_from_the_future_names_both_dates_and_both_clocks() {
    // FC-020
    let ca = Ca::new("one");
    let early = ca.context(|params| {
        params.not_before = (SystemTime::now() + HOUR + Duration::from_secs(30)).into();
        params.not_after = (SystemTime::now() + 2 * HOUR).into();
    });
    let (client, server) = meet(&ca.good(), &early).await;
    let refused = client.unwrap_err();
    assert!(matches!(refused, TlsError::NotYetValid { .. }), "{refused}");
    let text = refused.to_string();
    assert!(
        text.contains(AGENT) && text.matches("UTC").count() == 3 && text.contains("1h 0m before it begins"),
        "{text}"
    );
    let told = server.unwrap_err().to_string();
    assert!(told.contains("the peer refused our certificate") && told.contains("clock"), "{told}");
}

#[tokio::test]
async fn an_expired_certificate_is_refused_by_whoever_looks_at_it() {
    // FC-020
    let ca = Ca::new("one");
    let late = ca.context(|params| {
        params.not_before = (SystemTime::now() - 3 * HOUR).into();
        params.not_after = (SystemTime::now() - 2 * HOUR).into();
    });
    assert!(late.warnings()[0].contains("peers will refuse"), "{:?}", late.warnings());
    let (client, server) = meet(&late, &ca.good()).await;
    let refused = server.unwrap_err();
    assert!(matches!(refused, TlsError::Expired { .. }), "{refused}");
    assert!(refused.to_string().contains("2h 0m after its end"), "{refused}");
    let told = learned(client).await.to_string();
    assert!(told.contains("the peer refused our certificate (agent://"), "{told}");
}

#[tokio::test]
async fn a_certificate_of_another_authority_is_refused_with_its_name() {
    let (one, other) = (Ca::new("one"), Ca::new("other"));
    let (client, server) = meet(&one.good(), &other.good()).await;
    let refused = client.unwrap_err();
    assert!(matches!(refused, TlsError::UnknownIssuer { .. }), "{refused}");
    assert!(refused.to_string().contains("CN=other"), "{refused}");
    assert!(server.unwrap_err().to_string().contains("`ca` file"));
}

#[tokio::test]
async fn a_revoked_certificate_is_refused_on_both_ways() {
    let ca = Ca::new("one");
    let strict = || {
        let mut identity = ca.identity(|params| params.serial_number = Some(8_u64.into()));
        identity.revocation_lists = vec![ca.list(7)];
        TlsContext::from_identity(identity).unwrap()
    };
    let (client, server) = meet(&strict(), &ca.good()).await;
    assert!(matches!(client, Err(TlsError::Revoked { .. })));
    assert!(server.unwrap_err().to_string().contains("revoked"));
    let (client, server) = meet(&ca.good(), &strict()).await;
    assert!(matches!(server, Err(TlsError::Revoked { .. })));
    assert!(learned(client).await.to_string().contains("revoked"));
    let (client, _) = meet(&strict(), &strict()).await;
    assert!(client.is_ok());
}

#[tokio::test]
async fn a_certificate_names_exactly_one_agent() {
    // FC-022
    for names in [
        vec![],
        vec![uri(AGENT), uri("agent://default/support/other")],
        vec![uri("agent://default/support/NLU")],
    ] {
        let ca = Ca::new("one");
        let identity = ca.identity(|params| params.subject_alt_names = names.clone());
        // The check of a peer, without the check of one's own files that would refuse to start.
        let good = ca.good().current();
        let check = &good.mutual.as_ref().unwrap().check;
        let now = rustls_pki_types::UnixTime::now();
        let refused = check.check(&identity.chain[0], &[], now, webpki::KeyUsage::server_auth()).unwrap_err();
        assert!(matches!(refused, TlsError::NoAgentUri { .. }), "{refused}");
        assert!(matches!(
            TlsContext::from_identity(identity),
            Err(TlsError::BadOwn { what: "certificate", .. })
        ));
    }
}

#[tokio::test]
async fn a_certificate_for_servers_alone_does_not_dial() {
    let ca = Ca::new("one");
    let server_only =
        ca.context(|params| params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth]);
    let (client, server) = meet(&server_only, &ca.good()).await;
    assert!(matches!(server, Err(TlsError::BadCertificate { .. })));
    assert!(matches!(learned(client).await, TlsError::PeerRefused { .. }));
}

#[test]
fn a_key_of_another_certificate_is_refused_at_start() {
    // FC-023
    let ca = Ca::new("one");
    let mut identity = ca.identity(|_| {});
    identity.key = ca.identity(|_| {}).key;
    let refused = TlsContext::from_identity(identity).unwrap_err();
    assert!(matches!(refused, TlsError::KeyMismatch { .. }), "{refused}");
    assert!(refused.to_string().contains("serial 07"), "{refused}");
}

#[test]
fn a_revocation_list_that_cannot_be_used_is_refused_at_start() {
    let (one, other) = (Ca::new("one"), Ca::new("other"));
    let same_name = Ca::new("one");
    let garbage = CertificateRevocationListDer::from(b"garbage".to_vec());
    for list in [garbage, other.list(1), same_name.list(1)] {
        let mut identity = one.identity(|_| {});
        identity.revocation_lists = vec![list];
        let refused = TlsContext::from_identity(identity).unwrap_err();
        assert!(matches!(refused, TlsError::BadOwn { what: "revocation list (`crl`)", .. }), "{refused}");
    }
}

#[tokio::test]
async fn a_client_without_a_certificate_is_refused() {
    let ca = Ca::new("one");
    let (client, server) = meet(&TlsContext::for_token().unwrap(), &ca.good()).await;
    assert!(matches!(server, Err(TlsError::NoCertificate)));
    let told = learned(client).await.to_string();
    assert!(told.contains("the peer refused the connection") && told.contains("auth.mode"), "{told}");
}

#[tokio::test]
async fn with_tokens_any_two_nodes_share_a_binding_and_no_certificate() {
    let (client, server) = meet(&TlsContext::for_token().unwrap(), &TlsContext::for_token().unwrap()).await;
    let (client, server) = (client.unwrap(), server.unwrap());
    assert_eq!(client.channel_binding(), server.channel_binding());
    assert!(server.peer_certificate().is_none());
}

/// A client that asks for other things than Hermes does.
fn strange_client(change: impl FnOnce(&mut rustls::ClientConfig)) -> TlsConnector {
    let mut config = (*TlsContext::for_token().unwrap().current().client).clone();
    change(&mut config);
    TlsConnector::from(Arc::new(config))
}

fn nobody() -> ServerName<'static> {
    ServerName::try_from("b.test").unwrap()
}

#[tokio::test]
async fn a_peer_that_negotiates_no_protocol_is_refused_on_both_ways() {
    let token = TlsContext::for_token().unwrap();
    let (near, far) = memory::pair();
    let (_, server) =
        tokio::join!(strange_client(|c| c.alpn_protocols.clear()).connect(nobody(), near), token.accept(far));
    assert!(matches!(server, Err(TlsError::NoAlpn)));
    let (near, far) = memory::pair();
    let http = strange_client(|c| c.alpn_protocols = vec![b"h2".to_vec()]);
    let (_, server) = tokio::join!(http.connect(nobody(), near), token.accept(far));
    assert!(matches!(server, Err(TlsError::NoAlpn)));

    let mut config = (*token.current().server).clone();
    config.alpn_protocols.clear();
    let (near, far) = memory::pair();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let (client, _) = tokio::join!(token.connect(near), acceptor.accept(far));
    assert!(matches!(client, Err(TlsError::NoAlpn)));
}

/// The first flight of a client that offers TLS 1.2 and nothing newer.
fn tls12_hello() -> Vec<u8> {
    let mut body = vec![3, 3];
    body.extend([1; 32]);
    body.push(0);
    body.extend([0, 2, 0xc0, 0x2b, 1, 0]);
    // Groups and signature algorithms, so that only the version is missing.
    let extensions = [0, 10, 0, 4, 0, 2, 0, 29, 0, 13, 0, 4, 0, 2, 4, 3];
    body.extend([0, extensions.len() as u8]);
    body.extend(extensions);
    let mut handshake = vec![1, 0, 0, body.len() as u8];
    handshake.extend(body);
    let mut record = vec![22, 3, 1, 0, handshake.len() as u8];
    record.extend(handshake);
    record
}

#[tokio::test]
async fn a_client_that_speaks_tls_1_2_is_refused() {
    let ca = Ca::new("one");
    let (mut near, far) = memory::pair();
    near.write_all(&tls12_hello()).await.unwrap();
    let refused = ca.good().accept(far).await.unwrap_err();
    assert!(matches!(refused, TlsError::OldTls), "{refused}");
    let mut alert = [0; 7];
    near.read_exact(&mut alert).await.unwrap();
    assert_eq!(alert, [21, 3, 3, 0, 2, 2, 70], "the alert is protocol_version");
    // And the side that gets this alert says the same.
    let (mut far, near) = memory::pair();
    far.write_all(&alert).await.unwrap();
    assert!(matches!(ca.good().connect(near).await, Err(TlsError::OldTls)));
}

#[tokio::test]
async fn what_is_no_tls_is_called_so() {
    let ca = Ca::new("one");
    for (text, is_client) in
        [("HTTP/1.1 400 Bad Request\r\n\r\n", true), ("GET / HTTP/1.1\r\nHost: b\r\n\r\n", false)]
    {
        let (near, mut far) = memory::pair();
        far.write_all(text.as_bytes()).await.unwrap();
        let refused = if is_client { ca.good().connect(near).await } else { ca.good().accept(near).await };
        let refused = refused.unwrap_err();
        assert!(matches!(refused, TlsError::NotTls), "{refused}");
    }
}

#[tokio::test]
async fn a_handshake_that_is_cut_says_so() {
    let ca = Ca::new("one");
    let (near, far) = memory::pair();
    drop(far);
    assert!(matches!(ca.good().connect(near).await, Err(TlsError::Cut { .. })));
    let (near, mut far) = memory::pair();
    far.write_all(&tls12_hello()[..9]).await.unwrap();
    drop(far);
    assert!(matches!(ca.good().accept(near).await, Err(TlsError::Cut { .. })));
}

/// Over sockets: what `client` gets from dialling `server`, and the other way round.
async fn meet_over_tcp(client: &TlsContext, server: &TlsContext) -> (Outcome, Outcome) {
    let settings = TransportSettings::default();
    let mut listener = Listener::bind("127.0.0.1:0".parse().unwrap(), settings.clone()).unwrap();
    let endpoint = listener.address().unwrap().into();
    let deadline = tokio::time::Instant::now() + Duration::from_secs(5);
    tokio::join!(
        async { client.connect(Box::new(dial(&endpoint, &settings, deadline).await.unwrap())).await },
        async { server.accept(Box::new(listener.accept().await.0)).await }
    )
}

#[tokio::test]
async fn tls_runs_over_real_sockets() {
    let ca = Ca::new("one");
    let (client, server) = meet_over_tcp(&ca.good(), &ca.good()).await;
    assert_eq!(client.unwrap().channel_binding(), server.unwrap().channel_binding());
}

#[tokio::test]
async fn a_refusal_is_told_over_real_sockets_though_more_was_sent_meanwhile() {
    let ca = Ca::new("one");
    let mut strict = ca.identity(|params| params.serial_number = Some(8_u64.into()));
    strict.revocation_lists = vec![ca.list(7)];
    let (client, server) = meet_over_tcp(&ca.good(), &TlsContext::from_identity(strict).unwrap()).await;
    assert!(matches!(server, Err(TlsError::Revoked { .. })));
    let mut client = client.unwrap();
    // The peer has closed its socket: what is sent now is answered with a reset, which must not hide the reason.
    let _reset_or_not = client.write_all(&[0; 4096]).await;
    let told = learned(Ok(client)).await.to_string();
    assert!(told.contains("the peer refused our certificate") && told.contains("revoked"), "{told}");
}

#[test]
fn nothing_secret_is_printed() {
    let ca = Ca::new("one");
    let identity = ca.identity(|_| {});
    let key = format!("{:?}", identity.key.secret_der());
    let context = TlsContext::from_identity(identity).unwrap();
    let current = context.current();
    let text = format!("{context:?} {current:?} {:?}", current.mutual.as_ref().unwrap());
    assert!(!text.contains(&key[1..20]), "{text}");
}

#[test]
fn a_live_link_is_judged_by_what_is_in_force_now() {
    let ca = Ca::new("one");
    let peer = ca.identity(|_| {});
    assert!(ca.good().is_still_good(&peer.chain).is_ok());
    let mut strict = ca.identity(|params| params.serial_number = Some(8_u64.into()));
    strict.revocation_lists = vec![ca.list(7)];
    let strict = TlsContext::from_identity(strict).unwrap();
    assert!(matches!(strict.is_still_good(&peer.chain), Err(TlsError::Revoked { .. })));
    assert!(matches!(
        Ca::new("other").good().is_still_good(&peer.chain),
        Err(TlsError::UnknownIssuer { .. })
    ));
    assert!(TlsContext::for_token().unwrap().is_still_good(&[]).is_ok());
}
