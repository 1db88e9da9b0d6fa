use hermes_peer::{Failure, capability};

/// Echoes.
#[capability("text.echo")]
async fn echo(text: String) -> Result<String, Failure> {
    Ok(text)
}

fn main() {
    let _echo = echo("again".to_owned());
}
