use hermes_peer::{Failure, Node, capability};

/// Echoes.
async fn echo(text: String) -> Result<String, Failure> {
    Ok(text)
}

async fn nothing() -> Result<(), Failure> {
    Ok(())
}

/// Echoes loudly.
#[capability("text.upper")]
async fn upper(text: String) -> Result<String, Failure> {
    Ok(text.to_uppercase())
}

fn main() {
    let node = Node::builder("agent://default/text/echo");
    let _node = node.capability(echo);
    let node = Node::builder("agent://default/text/echo");
    let _node = node.capability(nothing);
    let node = Node::builder("agent://default/text/echo");
    let _node = node.capability(upper::run);
}
