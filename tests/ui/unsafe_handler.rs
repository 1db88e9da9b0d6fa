use hermes_peer::{Failure, capability};

/// Echoes.
#[capability("text.echo")]
async unsafe fn echo(text: String) -> Result<String, Failure> {
    Ok(text)
}

fn main() {}
