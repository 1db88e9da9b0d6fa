use hermes_peer::{Failure, capability};

/// Echoes.
#[capability("text.echo", read_only, destructive)]
async fn echo(text: String) -> Result<String, Failure> {
    Ok(text)
}

fn main() {}
