use hermes_peer::{Failure, Incoming, capability};

/// Echoes.
#[capability("text.echo")]
async fn echo(_texts: Incoming<String>, _numbers: Incoming<u32>) -> Result<(), Failure> {
    Ok(())
}

fn main() {}
