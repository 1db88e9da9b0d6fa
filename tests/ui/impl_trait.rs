use hermes_peer::{Failure, capability};

/// Echoes.
#[capability("text.echo")]
async fn echo(text: impl ToString + Send) -> Result<impl ToString, Failure> {
    Ok(text.to_string())
}

fn main() {}
