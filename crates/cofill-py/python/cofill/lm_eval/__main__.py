"""``python -m cofill.lm_eval``: the harness's command line, with ``cofill`` among its models."""

from cofill.lm_eval import main

if __name__ == "__main__":
    main()
