use hermes_peer::{Failure, capability};

/// Echoes.
#[capability("text.echo", cost = 11, weight = 0, concurrency = 0, queue = -1)]
async fn echo(text: String) -> Result<String, Failure> {
    Ok(text)
}

fn main() {}
