//! The end of a connection that this side closes: it stays until the peer has closed too, for a while.
//!
//! A socket that is closed while something unread has arrived answers with a reset, and a reset takes what this side said
//! last with it: answers, and the word that calls on their way were not taken. So the rest is read and thrown away.

use std::time::Duration;

use tokio::io::AsyncRead;

/// How long the peer has to read the last words and close: several round trips around the world, and less than the second
/// that a shutdown waits for its connections.
const PATIENCE: Duration = Duration::from_millis(700);

/// Waits for the peer's end.
pub(super) async fn linger(connection: &mut (impl AsyncRead + Unpin)) {
    let mut nowhere = tokio::io::sink();
    let rest = tokio::io::copy(connection, &mut nowhere);
    // However it ends: there is nobody left to tell.
    let _end = tokio::time::timeout(PATIENCE, rest).await;
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn it_ends_with_the_peers_end_or_when_its_time_is_over() {
        for closes in [true, false] {
            let (mut near, mut far) = tokio::io::duplex(64 * 1024);
            let started = Instant::now();
            let peer = tokio::spawn(async move {
                tokio::time::sleep(PATIENCE / 2).await;
                far.write_all(&[0; 1000]).await.unwrap();
                (!closes).then_some(far)
            });
            linger(&mut near).await;
            let expected = if closes { PATIENCE / 2 } else { PATIENCE };
            assert_eq!(started.elapsed().as_millis() / 10, expected.as_millis() / 10);
            drop(peer.await);
        }
    }
}
