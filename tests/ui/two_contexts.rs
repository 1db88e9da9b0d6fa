use hermes_peer::{Context, Failure, capability};

/// Echoes.
#[capability("text.echo")]
async fn echo(text: String, _one: Context, _two: Context) -> Result<String, Failure> {
    Ok(text)
}

fn main() {}
