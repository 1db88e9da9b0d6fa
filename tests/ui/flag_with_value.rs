use hermes_peer::{Failure, capability};

/// Echoes.
#[capability("text.echo", idempotent = true)]
async fn echo(text: String) -> Result<String, Failure> {
    Ok(text)
}

fn main() {}
