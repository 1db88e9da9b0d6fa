use hermes_peer::{Failure, capability};

/// Echoes.
#[capability("text.echo")]
async fn echo(echo: String) -> Result<String, Failure> {
    Ok(echo)
}

fn main() {}
