use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::Future;
use std::time::Duration;

use super::Process;
use super::trace::{Fate, What};

/// The way from callers to one service and back. What becomes of a request is settled by the first
/// verdict placed for its number, or else by the network's own.
#[derive(Debug)]
pub struct Network {
    usual: Verdict,
    placed: RefCell<Vec<(u32, Verdict)>>,
    sent: Cell<u32>,
}

/// What becomes of one request and its response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Both arrive.
    Deliver,
    /// Both arrive, the response after this time.
    Delay(Duration),
    /// Nobody listens: the caller is told at once.
    Refuse,
    /// The request never arrives; nobody is told.
    LoseRequest,
    /// The request is processed, the response never arrives; nobody is told.
    LoseResponse,
    /// The request is processed, and the connection breaks before the response: the caller is told
    /// at once.
    BreakAfterwards,
}

/// What a caller is told instead of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum NetworkError {
    /// Nobody listens at the service's address.
    ConnectionRefused,
    /// The connection broke after the request was processed.
    ResponseLost,
}

impl fmt::Display for NetworkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ConnectionRefused => "connection refused",
            Self::ResponseLost => "response lost after processing",
        })
    }
}

impl std::error::Error for NetworkError {}

impl Network {
    /// A network that does `usual` with every request for which nothing else is placed.
    pub fn new(usual: Verdict) -> Self {
        Self {
            usual,
            placed: RefCell::default(),
            sent: Cell::default(),
        }
    }

    /// Places `verdict` for the request of this number, counted from 1 over all callers.
    pub fn place(&self, number: u32, verdict: Verdict) {
        self.placed.borrow_mut().push((number, verdict));
    }

    /// How many requests were sent, whatever became of them.
    pub fn sent(&self) -> u32 {
        self.sent.get()
    }

    fn verdict(&self, number: u32) -> Verdict {
        let placed = self.placed.borrow();
        let found = placed.iter().find(|(of, _)| *of == number);
        found.map_or(self.usual, |&(_, verdict)| verdict)
    }

    /// Sends a request of `caller`; `work` is what `service` does when it arrives.
    ///
    /// Never returns when request or response is lost, or when the service dies at its work: the
    /// caller needs a timeout.
    ///
    /// # Errors
    ///
    /// [`NetworkError`].
    pub async fn call<T>(
        &self,
        caller: &Process,
        service: &Process,
        work: impl Future<Output = T>,
    ) -> Result<T, NetworkError> {
        let number = self.sent.get() + 1;
        self.sent.set(number);
        let verdict = self.verdict(number);
        caller.message(
            service,
            match verdict {
                Verdict::Refuse => Fate::Refused,
                Verdict::LoseRequest => Fate::Lost,
                _ => Fate::Arrives,
            },
        );
        caller.let_others_move().await;
        match verdict {
            Verdict::Refuse => return Err(NetworkError::ConnectionRefused),
            Verdict::LoseRequest => return caller.hang().await,
            _ => {}
        }
        let response = work.await;
        if !service.is_alive() {
            return caller.hang().await;
        }
        match verdict {
            Verdict::LoseResponse | Verdict::BreakAfterwards => {
                service.message(caller, Fate::Lost);
                if verdict == Verdict::LoseResponse {
                    return caller.hang().await;
                }
                return Err(NetworkError::ResponseLost);
            }
            Verdict::Delay(time) => caller.sleep_until(super::Host::now(caller) + time).await,
            _ => {}
        }
        service.message(caller, Fate::Arrives);
        Ok(response)
    }
}

impl Process {
    fn message(&self, to: &Process, fate: Fate) {
        self.record(What::Message {
            to: to.name(),
            fate,
        });
    }
}
