use hermes_peer::{Failure, capability};

/// Echoes.
#[capability("text.echo")]
async fn echo<T: Send, const N: usize>(texts: [T; N]) -> Result<[T; N], Failure> {
    Ok(texts)
}

fn main() {}
