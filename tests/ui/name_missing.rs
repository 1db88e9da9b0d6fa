use hermes_peer::{Failure, capability};

/// Echoes.
#[capability]
async fn bare(text: String) -> Result<String, Failure> {
    Ok(text)
}

/// Echoes.
#[capability(idempotent)]
async fn flag(text: String) -> Result<String, Failure> {
    Ok(text)
}

fn main() {}
