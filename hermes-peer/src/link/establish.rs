//! Runs the handshake on a connection whose TLS is up.

use std::io;

use bytes::BytesMut;
use tokio::io::AsyncReadExt;
use tokio::io::AsyncWriteExt;

use hermes_peer_proto::protocol::HandshakeError;
use hermes_peer_proto::protocol::handshake::Acceptor;
use hermes_peer_proto::protocol::handshake::Authenticated;
use hermes_peer_proto::protocol::handshake::Expected;
use hermes_peer_proto::protocol::handshake::HANDSHAKE_VERSION;
use hermes_peer_proto::protocol::handshake::Initiator;
use hermes_peer_proto::protocol::handshake::Local;
use hermes_peer_proto::protocol::handshake::ResumeTicket;
use hermes_peer_proto::protocol::handshake::Resumption;
use hermes_peer_proto::protocol::handshake::SynReceived;
use hermes_peer_proto::protocol::limits::MAX_HANDSHAKE_PAYLOAD;
use hermes_peer_proto::security::ChannelBinding;
use hermes_peer_proto::wire::Batch;
use hermes_peer_proto::wire::Decoder;
use hermes_peer_proto::wire::ErrorCode;
use hermes_peer_proto::wire::Fault;
use hermes_peer_proto::wire::Frame;
use hermes_peer_proto::wire::GoAway;
use hermes_peer_proto::wire::GoAwayReason;
use hermes_peer_proto::wire::HEADER_LEN;
use hermes_peer_proto::wire::LinkId;
use hermes_peer_proto::wire::MessageType;
use hermes_peer_proto::wire::Payload;
use hermes_peer_proto::wire::SECRET_LEN;
use hermes_peer_proto::wire::StreamId;

use super::linger::linger;
use crate::transport::tls::TlsConnection;

/// A connection on which both sides have proven who they are.
#[derive(Debug)]
pub(crate) struct Established {
    pub(crate) authenticated: Authenticated,
    pub(crate) connection: TlsConnection,
    /// Bytes that came behind the last handshake message.
    pub(crate) input: BytesMut,
}

/// Why no link came of a connection.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EstablishError {
    /// The handshake was refused, by either side.
    #[error(transparent)]
    Handshake(#[from] HandshakeError),
    /// This node takes nobody now, or not this one.
    #[error("refused: {} ({})", .0.code, .0.message)]
    Turned(Fault),
    /// The connection broke.
    #[error("the connection broke in the handshake: {0}")]
    Io(#[from] io::Error),
    /// The peer closed without a word.
    #[error("the peer closed the connection in the handshake")]
    Closed,
}

/// The initiator's side.
pub(crate) async fn dial(
    connection: TlsConnection,
    local: Local,
    nonce: [u8; SECRET_LEN],
    ticket: Option<ResumeTicket>,
    expected: Expected,
) -> Result<Established, EstablishError> {
    let binding = ChannelBinding::new(connection.channel_binding());
    let certificate = connection.peer_certificate().cloned();
    let mut pipe = Pipe::new(connection);
    let (initiator, syn) = Initiator::start(local, nonce, binding, certificate, ticket, expected);
    pipe.send(HANDSHAKE_VERSION, &syn).await?;
    let answer = pipe.receive().await?;
    match initiator.syn_ack(answer) {
        Ok((authenticated, established)) => {
            pipe.send(HANDSHAKE_VERSION, &established).await?;
            Ok(pipe.into_established(authenticated))
        }
        Err(error) => Err(pipe.refuse(HANDSHAKE_VERSION, error).await),
    }
}

/// The acceptor's side. `decide` judges the SYN: which link the connection is for, or why none.
pub(crate) async fn accept<D>(
    connection: TlsConnection,
    local: Local,
    nonce: [u8; SECRET_LEN],
    decide: D,
) -> Result<Established, EstablishError>
where
    D: FnOnce(SynReceived) -> Result<(SynReceived, LinkId, Resumption), Fault>,
{
    let binding = ChannelBinding::new(connection.channel_binding());
    let certificate = connection.peer_certificate().cloned();
    let mut pipe = Pipe::new(connection);
    let syn = pipe.receive().await?;
    let received = match Acceptor::new(local, nonce, binding, certificate).syn(syn) {
        Ok(received) => received,
        Err(error) => return Err(pipe.refuse(HANDSHAKE_VERSION, error).await),
    };
    let (received, link, resumption) = match decide(received) {
        Ok(decided) => decided,
        Err(fault) => {
            let frame = Frame::control(MessageType::Error, StreamId::LINK, fault.encode());
            pipe.part(HANDSHAKE_VERSION, &frame).await;
            return Err(EstablishError::Turned(fault));
        }
    };
    let (expect, syn_ack) = received.accept(link, resumption);
    let version = expect.version();
    pipe.send(HANDSHAKE_VERSION, &syn_ack).await?;
    let established = pipe.receive().await?;
    match expect.established(established) {
        Ok(authenticated) => Ok(pipe.into_established(authenticated)),
        Err(error) => Err(pipe.refuse(version, error).await),
    }
}

/// Turns an authenticated connection away.
pub(crate) async fn turn_away(established: Established, code: ErrorCode, message: &str) {
    let version = established.authenticated.version;
    let mut pipe = Pipe { connection: established.connection, input: established.input };
    let fault = Fault::new(code, message);
    pipe.part(version, &Frame::control(MessageType::Error, StreamId::LINK, fault.encode())).await;
    linger(&mut pipe.connection).await;
}

/// Ends a connection that another one makes superfluous: nothing that was sent on it was taken up.
pub(crate) async fn close_duplicate(established: Established) {
    let version = established.authenticated.version;
    let mut pipe = Pipe { connection: established.connection, input: established.input };
    let statement = GoAway {
        reason: GoAwayReason::Duplicate,
        last_stream: 0,
        message: "another connection carries the link".to_owned(),
    };
    pipe.part(version, &Frame::control(MessageType::GoAway, StreamId::LINK, statement.encode())).await;
    // The peer may have made calls on it already: it has to read that they were not taken.
    linger(&mut pipe.connection).await;
}

/// Frames over a connection, one at a time, within the bounds for strangers.
struct Pipe {
    connection: TlsConnection,
    input: BytesMut,
}

impl Pipe {
    fn new(connection: TlsConnection) -> Self {
        Self { connection, input: BytesMut::new() }
    }

    fn into_established(self, authenticated: Authenticated) -> Established {
        Established { authenticated, connection: self.connection, input: self.input }
    }

    async fn send(&mut self, version: u8, frame: &Frame) -> io::Result<()> {
        let mut batch = Batch::default();
        batch.push(version, frame);
        self.connection.write_all_buf(&mut batch).await?;
        self.connection.flush().await
    }

    async fn receive(&mut self) -> Result<Frame, EstablishError> {
        let decoder = Decoder::new(HANDSHAKE_VERSION, MAX_HANDSHAKE_PAYLOAD);
        loop {
            match decoder.decode(&mut self.input).map_err(HandshakeError::from) {
                Ok(Some(frame)) => return Ok(frame),
                Ok(None) => {}
                Err(error) => return Err(self.refuse(HANDSHAKE_VERSION, error).await),
            }
            let room = MAX_HANDSHAKE_PAYLOAD as usize + HEADER_LEN - self.input.len();
            let mut bounded = (&mut self.connection).take(room as u64);
            if bounded.read_buf(&mut self.input).await? == 0 {
                return Err(EstablishError::Closed);
            }
        }
    }

    /// Tells the peer why, closes, and gives the reason back.
    async fn refuse(&mut self, version: u8, error: HandshakeError) -> EstablishError {
        if let Some(frame) = error.refusal() {
            self.part(version, &frame).await;
        }
        error.into()
    }

    /// A last word. Whether it arrives is the network's affair: nothing depends on it.
    async fn part(&mut self, version: u8, frame: &Frame) {
        if self.send(version, frame).await.is_ok() {
            let _peer_may_be_gone = self.connection.shutdown().await;
        }
    }
}
