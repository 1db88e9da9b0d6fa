use hermes_peer::{Failure, capability};

/// Echoes.
#[capability("text.echo")]
fn echo(text: String) -> Result<String, Failure> {
    Ok(text)
}

fn main() {}
