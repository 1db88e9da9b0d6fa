use hermes_peer::{Failure, capability};

/// Echoes.
#[capability("text.echo", cost = 2, idempotent, cost = 3)]
async fn echo(text: String) -> Result<String, Failure> {
    Ok(text)
}

fn main() {}
