use super::*;

type Stream = Box<dyn ByteStream>;

async fn connected(network: &MemoryNetwork, listener: &mut MemoryListener) -> (Stream, Stream) {
    let (dialled, accepted) = tokio::join!(network.dial("a", "b"), listener.accept());
    let (accepted, from) = accepted.unwrap();
    assert_eq!(from, "a");
    (dialled.unwrap(), accepted)
}

#[tokio::test(start_paused = true)]
async fn bytes_arrive_in_order_both_ways_and_an_end_is_an_end() {
    let network = MemoryNetwork::new(1);
    let mut listener = network.listen("b").unwrap();
    let (mut a, mut b) = connected(&network, &mut listener).await;
    let sent: Vec<u8> = (0..500_000_u32).map(|n| n as u8).collect();
    let mut got = vec![0; sent.len()];
    let (wrote, read) = tokio::join!(a.write_all(&sent), b.read_exact(&mut got));
    wrote.unwrap();
    read.unwrap();
    assert!(got == sent);
    b.write_all(b"answer").await.unwrap();
    b.shutdown().await.unwrap();
    let mut answer = Vec::new();
    a.read_to_end(&mut answer).await.unwrap();
    assert_eq!(answer, b"answer");
}

#[tokio::test(start_paused = true)]
async fn a_cut_ends_both_sides_until_it_is_healed() {
    let network = MemoryNetwork::new(1);
    let mut listener = network.listen("b").unwrap();
    let (mut a, mut b) = connected(&network, &mut listener).await;
    network.cut("b", "a");
    assert_eq!((a.read(&mut [0]).await.unwrap(), b.read(&mut [0]).await.unwrap()), (0, 0));
    assert!(network.dial("a", "b").await.err().unwrap().to_string().contains("is cut"));
    network.heal("a", "b");
    connected(&network, &mut listener).await;
}

#[tokio::test(start_paused = true)]
async fn a_stalled_path_says_nothing_and_loses_nothing() {
    let network = MemoryNetwork::new(1);
    let mut listener = network.listen("b").unwrap();
    let (mut a, mut b) = connected(&network, &mut listener).await;
    network.stall("a", "b");
    a.write_all(b"late").await.unwrap();
    let mut got = [0; 4];
    let early = tokio::time::timeout(Duration::from_secs(3600), b.read_exact(&mut got)).await;
    assert!(early.is_err());
    network.heal("a", "b");
    b.read_exact(&mut got).await.unwrap();
    assert_eq!(&got, b"late");
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_gives_the_same_delays() {
    let run = async |seed| {
        let network = MemoryNetwork::new(seed);
        let mut listener = network.listen("b").unwrap();
        network.delay("a", "b", Duration::from_millis(50), Duration::from_millis(100));
        let (mut a, mut b) = connected(&network, &mut listener).await;
        let start = Instant::now();
        a.write_all(b"x").await.unwrap();
        b.read_u8().await.unwrap();
        start.elapsed()
    };
    let took = run(7).await;
    assert!((50..=151).contains(&took.as_millis()), "{took:?}");
    assert_eq!(took, run(7).await);
    assert_ne!(took, run(8).await);
}

#[tokio::test]
async fn a_name_is_taken_once_and_free_again() {
    let network = MemoryNetwork::new(1);
    assert!(network.dial("a", "b").await.err().unwrap().to_string().contains("nobody listens as `b`"));
    let listener = network.listen("b").unwrap();
    assert_eq!(network.listen("b").unwrap_err().kind(), io::ErrorKind::AddrInUse);
    drop(listener);
    assert!(network.dial("a", "b").await.is_err());
    network.listen("b").unwrap();
}
