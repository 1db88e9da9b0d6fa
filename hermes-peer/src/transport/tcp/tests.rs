use std::cell::RefCell;
use std::future::pending;

use tokio::io::AsyncReadExt as _;
use tokio::io::AsyncWriteExt as _;

use super::*;

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(5)
}

fn loopback() -> Listener {
    Listener::bind("127.0.0.1:0".parse().unwrap(), TransportSettings::default()).unwrap()
}

fn endpoint(host: &str, listener: &Listener) -> Endpoint {
    format!("{host}:{}", listener.address().unwrap().port()).parse().unwrap()
}

#[tokio::test]
async fn localhost_reaches_a_peer_that_listens_on_ipv4_only() {
    // FC-017
    let mut listener = loopback();
    let endpoint = endpoint("localhost", &listener);
    let settings = TransportSettings::default();
    let (dialled, (mut accepted, from)) = tokio::join!(dial(&endpoint, &settings, soon()), listener.accept());
    let mut dialled = dialled.unwrap();
    assert_eq!(from, dialled.local_addr().unwrap());
    dialled.write_all(b"hello").await.unwrap();
    let mut got = [0; 5];
    accepted.read_exact(&mut got).await.unwrap();
    assert_eq!(&got, b"hello");
}

#[tokio::test]
async fn the_options_of_a_link_are_set_on_both_ends() {
    let mut listener = loopback();
    let endpoint = endpoint("127.0.0.1", &listener);
    let settings = TransportSettings::default();
    let (dialled, (accepted, _)) = tokio::join!(dial(&endpoint, &settings, soon()), listener.accept());
    for stream in [dialled.unwrap(), accepted] {
        let socket = SockRef::from(&stream);
        assert!(socket.tcp_nodelay().unwrap() && socket.keepalive().unwrap());
        #[cfg(target_os = "linux")]
        assert_eq!(
            (socket.tcp_notsent_lowat().unwrap(), socket.tcp_user_timeout().unwrap()),
            (16 * 1024, Some(Duration::from_secs(20)))
        );
    }
}

#[tokio::test]
async fn a_taken_port_is_named_with_the_remedy() {
    let first = loopback();
    let address = first.address().unwrap();
    let refused = Listener::bind(address, TransportSettings::default()).unwrap_err();
    let text = refused.to_string();
    assert!(text.starts_with(&format!("port {} is taken: ", address.port())), "{text}");
    assert!(text.contains(&address.to_string()) && text.contains("listen"), "{text}");
}

#[tokio::test]
async fn an_address_of_another_machine_is_no_place_to_listen() {
    let refused = Listener::bind("192.0.2.1:0".parse().unwrap(), TransportSettings::default()).unwrap_err();
    assert!(matches!(refused, ListenError::NotOurs { .. }), "{refused}");
}

#[tokio::test]
async fn every_address_that_failed_is_listed() {
    let listener = loopback();
    let endpoint = endpoint("localhost", &listener);
    drop(listener);
    let refused = dial(&endpoint, &TransportSettings::default(), soon()).await.unwrap_err().to_string();
    assert!(refused.contains(&format!("127.0.0.1:{}: ", endpoint.port())), "{refused}");
}

#[tokio::test]
async fn a_listener_on_all_ipv6_addresses_takes_ipv4_and_shows_it_as_such() {
    let Ok(mut listener) = Listener::bind("[::]:0".parse().unwrap(), TransportSettings::default()) else {
        return; // A machine without IPv6 has nothing to show here.
    };
    let endpoint = endpoint("127.0.0.1", &listener);
    let settings = TransportSettings::default();
    let (dialled, (_accepted, from)) = tokio::join!(dial(&endpoint, &settings, soon()), listener.accept());
    assert_eq!(from, dialled.unwrap().local_addr().unwrap());
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_socket_connected_with_itself_is_no_peer() {
    // Bound and connected to its own port, a socket meets itself: the system does it by chance, the test on purpose.
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let own = socket.local_addr().unwrap();
    let stream = socket.connect(own).await.unwrap();
    assert_eq!(stream.local_addr().unwrap(), stream.peer_addr().unwrap());
    assert!(refuse_itself(stream).is_err());
}

fn addresses(count: u16) -> Vec<SocketAddr> {
    (1..=count).map(|port| SocketAddr::from(([192, 0, 2, 1], port))).collect()
}

#[tokio::test(start_paused = true)]
async fn a_silent_address_delays_the_next_by_one_step() {
    let start = Instant::now();
    let answers = async |address: SocketAddr| match address.port() {
        2 => Ok(address.port()),
        _ => pending().await,
    };
    let won = race(addresses(3), Duration::from_millis(250), start + Duration::from_secs(10), answers).await;
    assert_eq!((won.unwrap(), start.elapsed()), (2, Duration::from_millis(250)));
}

#[tokio::test(start_paused = true)]
async fn a_refusal_moves_on_at_once() {
    let start = Instant::now();
    let answers = async |address: SocketAddr| match address.port() {
        1 => Err(io::ErrorKind::ConnectionRefused.into()),
        port => Ok(port),
    };
    let won = race(addresses(2), Duration::from_millis(250), start + Duration::from_secs(10), answers).await;
    assert_eq!((won.unwrap(), start.elapsed()), (2, Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn a_dial_ends_at_its_deadline_and_says_who_was_silent() {
    let start = Instant::now();
    let asked = RefCell::new(0);
    let answers = async |_| {
        *asked.borrow_mut() += 1;
        pending::<io::Result<()>>().await
    };
    let failed =
        race(addresses(2), Duration::from_millis(250), start + Duration::from_secs(3), answers).await;
    let failed = failed.unwrap_err();
    assert_eq!((failed.len(), *asked.borrow(), start.elapsed()), (2, 2, Duration::from_secs(3)));
    assert!(Tried(failed).to_string().contains("192.0.2.1:1: no answer in time; 192.0.2.1:2"));
}

#[test]
fn the_two_families_alternate() {
    let parse = |all: &[&str]| all.iter().map(|a| a.parse().unwrap()).collect::<Vec<SocketAddr>>();
    let given = parse(&["[::1]:1", "[::1]:1", "[::2]:1", "1.1.1.1:1", "[::3]:1"]);
    assert_eq!(alternate(given.into_iter()), parse(&["[::1]:1", "1.1.1.1:1", "[::2]:1", "[::3]:1"]));
    assert!(alternate(addresses(100).into_iter()).len() <= MAX_ADDRESSES);
}

#[cfg(unix)]
#[test]
fn too_many_open_files_pause_the_listener_and_an_aborted_connection_does_not() {
    // 24 is EMFILE and 23 is ENFILE everywhere.
    assert!(!is_of_one_connection(&io::Error::from_raw_os_error(24)));
    assert!(!is_of_one_connection(&io::Error::from_raw_os_error(23)));
    assert!(is_of_one_connection(&io::ErrorKind::ConnectionAborted.into()));
}
