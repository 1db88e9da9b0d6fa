//! Two links joined in memory under a clock of the test's own (feature `testing`).

mod pair;

pub use pair::Pair;
pub use pair::Wire;
pub use pair::body;
pub use pair::message;
