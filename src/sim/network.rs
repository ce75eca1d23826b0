use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::Future;
use std::time::Duration;

use tokio::sync::oneshot;

use super::trace::{Fate, What};
use super::{Host, Process};

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
    /// Both arrive, the request after this time.
    DelayRequest(Duration),
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
    /// The service works on its own: a caller that stops waiting, or dies, stops nothing there. Never
    /// returns when request or response is lost, or when the service dies at its work: the caller
    /// needs a timeout.
    ///
    /// # Errors
    ///
    /// [`NetworkError`].
    pub async fn call<T: 'static>(
        &self,
        caller: &Process,
        service: &Process,
        work: impl Future<Output = T> + 'static,
    ) -> Result<T, NetworkError> {
        let number = self.sent.get() + 1;
        self.sent.set(number);
        let verdict = if caller.is_spared() {
            Verdict::Deliver
        } else {
            self.verdict(number)
        };
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
        let (tell, told) = oneshot::channel();
        let (to, at) = (caller.clone(), service.clone());
        service.spawn(async move {
            if let Verdict::DelayRequest(time) = verdict {
                at.sleep_until(at.now().saturating_add(time)).await;
            }
            let response = work.await;
            if let Verdict::Delay(time) = verdict {
                at.sleep_until(at.now().saturating_add(time)).await;
            }
            let reply = match verdict {
                Verdict::LoseResponse => None,
                Verdict::BreakAfterwards => Some(Err(NetworkError::ResponseLost)),
                _ => Some(Ok(response)),
            };
            let arrives = matches!(reply, Some(Ok(_)));
            at.message(&to, if arrives { Fate::Arrives } else { Fate::Lost });
            // A caller that gave up does not listen.
            let _ = reply.map(|reply| tell.send(reply));
        });
        match told.await {
            Ok(reply) => reply,
            Err(_) => caller.hang().await,
        }
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
