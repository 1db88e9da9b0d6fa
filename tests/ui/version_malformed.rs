use hermes_peer::{Failure, capability};

/// Echoes.
#[capability("text.echo", version = "1.2")]
async fn echo(text: String) -> Result<String, Failure> {
    Ok(text)
}

fn main() {}
