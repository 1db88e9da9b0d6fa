use hermes_peer::{Failure, capability};

/// Echoes.
#[capability("text.echo", access = "private")]
async fn echo(text: String) -> Result<String, Failure> {
    Ok(text)
}

fn main() {}
