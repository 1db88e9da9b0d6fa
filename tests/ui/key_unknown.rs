use hermes_peer::{Failure, capability};

/// Echoes.
#[capability("text.echo", readonly)]
async fn near(text: String) -> Result<String, Failure> {
    Ok(text)
}

/// Echoes.
#[capability("text.echo", timeout = "5s")]
async fn far(text: String) -> Result<String, Failure> {
    Ok(text)
}

fn main() {}
