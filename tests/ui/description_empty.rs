use hermes_peer::{Failure, capability};

/// Echoes.
#[capability("text.echo", description = " ")]
async fn echo(text: String) -> Result<String, Failure> {
    Ok(text)
}

fn main() {}
