use hermes_peer::{Failure, capability};

type Incoming = hermes_peer::Incoming<String>;

/// Echoes.
#[capability("text.echo")]
async fn echo(_texts: Incoming) -> Result<(), Failure> {
    Ok(())
}

fn main() {}
