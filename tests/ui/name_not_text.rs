use hermes_peer::{Failure, capability};

/// Echoes.
#[capability(3)]
async fn echo(text: String) -> Result<String, Failure> {
    Ok(text)
}

fn main() {}
