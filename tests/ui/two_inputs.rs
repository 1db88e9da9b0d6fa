use hermes_peer::{Failure, capability};

/// Echoes.
#[capability("text.echo")]
async fn echo(text: String, times: usize) -> Result<String, Failure> {
    Ok(text.repeat(times))
}

fn main() {}
