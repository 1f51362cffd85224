//! Links the extension as Python wants it, also when cargo builds it without maturin.

fn main() {
    pyo3_build_config::add_extension_module_link_args();
}
