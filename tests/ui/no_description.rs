use hermes_peer::{Failure, capability};

#[capability("text.echo")]
async fn echo(text: String) -> Result<String, Failure> {
    Ok(text)
}

fn main() {}
