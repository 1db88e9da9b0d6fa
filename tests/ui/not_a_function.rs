use hermes_peer::capability;

/// Echoes.
#[capability("text.echo")]
#[derive(Debug)]
struct Echo;

fn main() {}
