//! The shortest mesh: one node provides a capability, another one calls it. They find each other by themselves, and speak
//! TLS with certificates of your own development authority, which is made on first use.
//!
//! You should see:
//!
//! ```text
//! bob got "Hello, mesh!" from alice
//! ```

use hermes_peer::Context;
use hermes_peer::Failure;
use hermes_peer::Node;
use hermes_peer::capability;

/// Gives back what it gets.
#[capability("example.echo")]
async fn echo(text: String, _context: Context) -> Result<String, Failure> {
    Ok(text)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let alice =
        Node::builder("agent://default/demo/alice").listen("127.0.0.1:0").capability(echo).start().await?;
    let bob = Node::builder("agent://default/demo/bob").start().await?;

    let text: String = bob.call("example.echo", "Hello, mesh!").await?;
    println!("bob got {text:?} from {}", alice.agent().name());
    Ok(())
}
