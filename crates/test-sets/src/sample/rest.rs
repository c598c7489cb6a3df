//! The artifacts of the sample that only the profiler and the devel package take.

use super::sketch::Sketch;

pub(crate) fn sketches() -> Vec<Sketch> {
    vec![systems_profiler(), compute_profiler(), headers(), documentation()]
}

fn systems_profiler() -> Sketch {
    let mut sketch = Sketch::zst("rocprofiler-systems_lib_generic")
        .stage("profiler/rocprofiler-systems/stage")
        .library("lib", "librocprof-sys.so.1", ".3", |library| {
            library
                .needs("libamdhip64.so.7")
                .calls("rocprofsys_answer", "hip_answer")
                .runpath("$ORIGIN")
        })
        .library("lib", "libprofiler-hub.so.0", ".1", |library| library.function("hub_answer", 8))
        .text("lib/rocprofiler-systems/scripts/run.sh", "exit 0\n")
        .text("share/doc/rocprofiler-systems/LICENSE", "MIT\n");
    for name in ["attach", "avail", "causal", "instrument", "run", "sample", "python"] {
        let name = format!("rocprof-sys-{name}");
        sketch = sketch.tool(&format!("bin/{name}"), &format!("{name} v1.3 (sample)\n"));
    }
    sketch
}

fn compute_profiler() -> Sketch {
    Sketch::xz("rocprofiler-compute_run_generic")
        .stage("profiler/rocprofiler-compute/stage")
        .script(
            "libexec/rocprofiler-compute/rocprof-compute",
            "#!/bin/sh\necho 'rocprof-compute'\n",
        )
        .link("bin/rocprof-compute", "../libexec/rocprofiler-compute/rocprof-compute")
}

fn headers() -> Sketch {
    Sketch::xz("prim_dev_generic")
        .stage("math-libs/rocPRIM/stage")
        .text("include/rocprim/rocprim.hpp", "#pragma once\n")
        .text("lib/cmake/rocprim/rocprim-config.cmake", "set(rocprim_FOUND TRUE)\n")
}

fn documentation() -> Sketch {
    Sketch::zst("blas_doc_generic")
        .stage("math-libs/BLAS/rocBLAS/stage")
        .text("share/doc/rocblas/LICENSE.md", "MIT\n")
}
