use hermes_peer::{Failure, capability};

/// Echoes.
#[capability("text.echo", reads = "intent")]
async fn echo(text: String) -> Result<String, Failure> {
    Ok(text)
}

fn main() {}
