use hermes_peer::{Failure, capability};

/// Echoes.
#[capability("text.echo", description = 1, version = 1.2, access = Admin)]
async fn echo(text: String) -> Result<String, Failure> {
    Ok(text)
}

fn main() {}
