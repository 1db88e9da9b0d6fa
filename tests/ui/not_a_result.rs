use hermes_peer::capability;

/// Echoes.
#[capability("text.echo")]
async fn echo(text: String) -> Option<String> {
    Some(text)
}

fn main() {}
