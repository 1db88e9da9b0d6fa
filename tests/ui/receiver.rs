use hermes_peer::{Failure, capability};

struct Echo;

impl Echo {
    /// Echoes.
    #[capability("text.echo")]
    async fn echo(&self, text: String) -> Result<String, Failure> {
        Ok(text)
    }
}

fn main() {}
