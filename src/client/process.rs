use std::time::Duration;

use super::{Class, Clock, Effect, Failure};
use crate::sim::{Host, NetworkError, Process};

/// When the world of a [`Process`] begins: 1 January 2026, 00:00:00 UTC, since the Unix epoch.
const WORLD_BEGINS: Duration = Duration::from_secs(1_767_225_600);

impl Clock for Process {
    fn now(&self) -> Duration {
        Host::now(self)
    }

    fn since_epoch(&self) -> Duration {
        WORLD_BEGINS.saturating_add(Host::now(self))
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
