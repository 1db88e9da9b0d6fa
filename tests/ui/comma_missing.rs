use hermes_peer::{Failure, capability};

/// Echoes.
#[capability("text.echo", cost = 2 idempotent)]
async fn echo(text: String) -> Result<String, Failure> {
    Ok(text)
}

fn main() {}
