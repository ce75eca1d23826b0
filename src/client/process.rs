use std::time::Duration;

use super::{Class, Clock, Effect, Failure};
use crate::sim::{Host, NetworkError, Process};

impl Clock for Process {
    fn now(&self) -> Duration {
        Host::now(self)
    }

    fn since_epoch(&self) -> Duration {
        Process::since_epoch(self)
    }

    async fn sleep(&self, duration: Duration) {
        self.sleep_until(Host::now(self).saturating_add(duration))
            .await;
    }
}

impl Failure for NetworkError {
    /// A broken or refused connection may be better the next time.
    fn class(&self) -> Class {
        Class::Retryable
    }

    /// Who was refused was not heard; a connection that breaks later tells nothing.
    fn effect(&self) -> Effect {
        match self {
            Self::ConnectionRefused => Effect::NotDone,
            Self::ResponseLost => Effect::MayBeDone,
        }
    }
}
