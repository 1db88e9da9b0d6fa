//! The `#[capability]` attribute of `hermes-peer`.
//!
//! Use it as `hermes_peer::capability`: what it expands to names types of `hermes_peer`, of exactly this version.
//!
//! A run goes through one file after the other: `attr` reads the attribute's arguments, `check` holds them and the
//! function to the rules and makes a `model::Handler`, `expand` writes the capability; after an error `fallback` stands
//! in for it. `diag` collects what is wrong.

mod attr;
mod check;
mod diag;
mod expand;
mod fallback;
mod model;
mod nearest;

use proc_macro::TokenStream;
use syn::Item;

use crate::diag::Diag;

/// Makes a function a capability: one that other agents find, understand and call.
///
/// ```ignore
/// use hermes_peer::{Context, Failure, capability};
///
/// /// Finds the passages that answer a question.
/// #[capability("knowledge.retrieve", idempotent, reads = ["intent"], cost = 2)]
/// async fn retrieve(question: Question, context: Context) -> Result<Passages, Failure> {
///     let intent: Option<String> = context.slot("intent")?;
///     Ok(search(&question.text, intent))
/// }
///
/// let node = Node::builder("agent://default/support/retrieval").capability(retrieve).start().await?;
/// ```
///
/// The first argument is the name, `domain.action`: two or more words of `a-z`, `0-9` and `_` joined by dots, 128 bytes
/// at most.
///
/// # Keys
///
/// They follow the name in any order, separated by commas. All are optional.
///
/// | key | default | meaning |
/// |---|---|---|
/// | `description = "…"` | the doc comment | What it does, for people and for models that choose tools. Of a doc comment, the lines of a paragraph are joined. One of the two must be there |
/// | `version = "1.2.0"` | `"1.0.0"` | Which version this is. Callers who ask for 1.2 get 1.2.0 and everything later below 2 |
/// | `idempotent` | no | Running it twice does what running it once does, so a call may be tried again |
/// | `read_only` | no | It changes nothing. Excludes `destructive` and `writes` |
/// | `destructive` | no | It may destroy something that cannot be brought back |
/// | `reentrant` | no | It may stand in its own path: A calls B calls A |
/// | `cost = 2` | `0` | How expensive a call is, from 0 (free) to 10 |
/// | `access = "restricted"` | `"public"` | Who may call it where no policy says otherwise: `"public"`, any agent of the tenant; `"restricted"`, whom a policy rule names; `"admin"`, whom a rule names as admin |
/// | `reads = ["intent"]` | none | The slots that travel to it with a request |
/// | `writes = ["passages"]` | none | The slots that it may write |
/// | `weight = 70` | `100` | Its share of calls among the providers of the capability, 1 to 1000: 30 beside 70 gets three in ten |
/// | `concurrency = 8` | `64` | How many calls run at once, 1 or more |
/// | `queue = 16` | `64` | How many calls wait for one that runs; more are answered `OVERLOADED`. 0: none waits |
///
/// # Parameters and result
///
/// Parameters are told apart by the last word of their type, in any order, each at most once, and taken by value:
///
/// | type | what it is |
/// |---|---|
/// | `Context` | who calls, in which session, how much time is left |
/// | `Incoming<I>` | a stream of items that the caller sends |
/// | anything else | the input: what the body is decoded into, and what the input schema is made of. Without it, the capability takes nothing |
///
/// It returns `Result<O, E>`. `E` is `Failure` or what converts into it. `O` is what the caller gets and what the output
/// schema is made of; with `Items<T>` it gets a stream of `T`.
///
/// # What it becomes
///
/// - A struct of the function's name and visibility, with its doc comment, that implements `Capability`; and a function
///   of that name that makes it, so that `.capability(retrieve)` takes the name alone. Elsewhere it is `retrieve()`.
/// - The function itself as `retrieve::run`, with its other attributes: a unit test awaits `retrieve::run(question, context)`.
///
/// It stands on free functions only, not inside an `impl`.
///
/// # Errors that the compiler may show
///
/// All that apply are shown in one run.
///
/// | it says | cure |
/// |---|---|
/// | the capability's name comes first | begin with the name: `#[capability("text.echo")]` |
/// | a capability is named `domain.action` … | lower-case words, joined by dots: `"text.echo"`, not `"Echo"` or `"text-echo"` |
/// | a capability's name has 128 bytes at most … | shorten it |
/// | there is no key `…` | take the nearest, which it names, or one of the table above |
/// | `…` is given twice | keep one |
/// | `…` needs a value | write it as in the example that it gives |
/// | `…` takes no value | write the key alone, or leave it out |
/// | `…` is a whole number from … | a literal within the limits of the table above |
/// | `version` is three numbers …, `access` is one of …, `reads` is a list of slots … | as the table above has it |
/// | what is `read_only` changes nothing … | drop `read_only`, or `destructive` or `writes` |
/// | a handler is an `async fn` | write `async fn`; work that blocks goes to `spawn_blocking` |
/// | a handler is a free function without `self` | share state by `.state(…)` on the node, take it by `Context::state` |
/// | a handler has no generic parameters …, a schema needs a type with a name … | name the types; a stream is `Items<T>` |
/// | a handler has one input | put both into one struct: callers name its fields |
/// | a handler owns what it is given … | take `String` for `&str`, `T` for `&T` |
/// | a handler returns a `Result` | `-> Result<Output, Failure>` |
/// | a capability needs a description … | write a doc comment or `description = "…"` |
/// | this function takes 0 arguments | the handler as a plain function is `retrieve::run` |
/// | the trait bound `T: JsonSchema` (or `Serialize`, `Deserialize`) is not satisfied | derive it on the type of the input or the result |
/// | future cannot be sent between threads safely | do not keep an `Rc`, a `RefCell` or a lock's guard across an `.await` |
#[proc_macro_attribute]
pub fn capability(args: TokenStream, item: TokenStream) -> TokenStream {
    capability_tokens(args.into(), item.into()).into()
}

fn capability_tokens(
    args: proc_macro2::TokenStream,
    item: proc_macro2::TokenStream,
) -> proc_macro2::TokenStream {
    let mut diag = Diag::default();
    let attrs = attr::parse(args, &mut diag);
    let function = match syn::parse2(item.clone()) {
        Ok(Item::Fn(function)) => Some(function),
        Ok(_) => {
            diag.error(&item, "#[capability] stands on an `async fn`: move it there");
            None
        }
        Err(error) => {
            diag.push(error);
            None
        }
    };
    let handler = function.as_ref().and_then(|function| check::check(attrs, function, &mut diag));
    match diag.finish(handler) {
        Ok(handler) => expand::handler(&handler),
        Err(mut errors) => {
            errors.extend(function.as_ref().map_or(item, fallback::handler));
            errors
        }
    }
}
