use hermes_peer::capability;

/// Echoes.
#[capability("text.echo")]
async fn echo(_text: String) {}

fn main() {}
