from engram.cli.app import main

main()
