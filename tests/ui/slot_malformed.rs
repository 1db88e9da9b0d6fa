use hermes_peer::{Failure, capability};

/// Echoes.
#[capability("text.echo", reads = ["Intent", 3], writes = [""])]
async fn echo(text: String) -> Result<String, Failure> {
    Ok(text)
}

fn main() {}
