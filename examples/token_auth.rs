//! A shared token in place of certificates: whoever knows it is let in, and it never crosses the wire.
//!
//! You should see one call that is answered, and one that finds nobody, with the reason:
//!
//! ```text
//! with the token:    42
//! with another one:  UNAVAILABLE: nobody provides `example.answer` now; not reachable: …
//! ```

use std::time::Duration;

use hermes_peer::Context;
use hermes_peer::Failure;
use hermes_peer::Node;
use hermes_peer::capability;

/// Knows the answer.
#[capability("example.answer", read_only)]
async fn answer(_context: Context) -> Result<u32, Failure> {
    Ok(42)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // In a program it comes from the environment or a file, and differs for each mesh: `openssl rand -hex 32`.
    let token = "for this example only, never for a mesh";
    let node = |agent: &str, token: &str| Node::builder(agent).token(token).without_local_discovery();
    let oracle =
        node("agent://default/demo/oracle", token).listen("127.0.0.1:0").capability(answer).start().await?;
    let address = oracle.address().ok_or("it listens")?.to_string();

    let friend =
        node("agent://default/demo/friend", token).peer(oracle.id().as_str(), &address).start().await?;
    let found: u32 = friend.call("example.answer", &()).await?;
    println!("with the token:    {found}");

    let stranger = node("agent://default/demo/stranger", "a guess of the right length");
    let stranger = stranger.peer(oracle.id().as_str(), &address).start().await?;
    let refused = stranger.call::<u32>("example.answer", &()).wait_for_provider(Duration::from_secs(1)).await;
    match refused {
        Ok(found) => println!("with another one:  {found}, which must not happen"),
        Err(error) => println!("with another one:  {error}"),
    }
    Ok(())
}
