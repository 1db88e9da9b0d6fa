use hermes_peer::{Context, Failure, capability};

/// Echoes.
#[capability("text.echo")]
async fn echo(text: &str, _context: &Context) -> Result<String, Failure> {
    Ok(text.to_owned())
}

fn main() {}
