//! The link machine: streams over connections that come and go.
//!
//! Methods are of four kinds, called in this order whenever something happens:
//! 1. **commands** of the application: [`open`](Link::open), [`send`](Link::send), [`read`](Link::read),
//!    [`cancel`](Link::cancel), [`publish`](Link::publish), [`advertise`](Link::advertise), …
//! 2. **`handle_`**: what came from outside: [`handle_frame`](Link::handle_frame), [`handle_timeout`](Link::handle_timeout),
//!    and connections with [`attach`](Link::attach) and [`detach`](Link::detach);
//! 3. **`poll_`**: what goes out, each until it gives `None` or `false`: [`poll_notice`](Link::poll_notice),
//!    [`poll_transmit`](Link::poll_transmit), then [`poll_timeout`](Link::poll_timeout);
//! 4. getters, at any time.
//!
//! The rule that keeps it correct: a data frame gets its number when it is handed to the connection, in that order and
//! never before; so whatever overtakes, counts on both sides agree.

mod ack;
mod commands;
mod flow;
mod inbound;
mod liveness;
mod machine;
mod outbound;
mod receive;
mod reconnect;
mod statements;
mod stream;
mod transmit;
mod window;

pub use self::commands::OpenRefused;
pub use self::commands::Read;
pub use self::commands::SendRefused;
pub use self::inbound::Received;
pub use self::machine::Link;
pub use self::machine::Outgoing;
pub use self::outbound::DEFAULT_PRIORITY;
pub use self::outbound::MAX_PRIORITY;
pub use self::outbound::SEND_AHEAD;
pub use self::reconnect::Ended;
pub use self::window::UNCOUNTED;

#[cfg(test)]
mod tests;
