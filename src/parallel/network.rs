//! The only asynchronous runtime of the process. Requests mostly wait for the network, so a few
//! threads serve all of them.

use std::{future::Future, sync::LazyLock, time::Duration};

use tokio::runtime::{Builder, Runtime};

use crate::error::{Interrupted, Stop};

const THREADS: usize = 4;
/// How soon a waiting thread notices that the user asked to stop.
const NOTICE: Duration = Duration::from_millis(50);

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    let mut builder = Builder::new_multi_thread();
    let builder = builder.worker_threads(THREADS).thread_name("network");
    builder
        .enable_all()
        .build()
        .expect("threads can be started")
});

pub fn runtime() -> &'static Runtime {
    &RUNTIME
}

/// Runs a future until it ends or the user interrupts.
pub fn wait<T>(stop: &Stop, future: impl Future<Output = T>) -> Result<T, Interrupted> {
    RUNTIME.block_on(async {
        let stopped = async {
            while stop.check().is_ok() {
                tokio::time::sleep(NOTICE).await;
            }
        };
        tokio::select! {
            biased;
            done = future => Ok(done),
            () = stopped => Err(Interrupted),
        }
    })
}
