use hermes_peer::{Failure, capability};

/// Echoes.
#[capability("text.echo", writes = ["last"], read_only)]
async fn echo(text: String) -> Result<String, Failure> {
    Ok(text)
}

fn main() {}
